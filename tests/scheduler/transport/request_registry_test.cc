#include "scheduler/transport/request_registry.h"

#include "gtest/gtest.h"

namespace octavo {
namespace {

TEST(RequestRegistry, TranslatesNamesWhileARequestLives) {
  RequestRegistry registry;
  int aborted = 0;
  EXPECT_TRUE(registry.Add("mine", [&aborted] { ++aborted; }));
  EXPECT_FALSE(registry.Add("mine", [] {}));
  EXPECT_EQ(registry.Find("mine"), std::nullopt);  // the engine has not accepted it yet
  registry.Bind("mine", 7);
  EXPECT_EQ(registry.Find("mine"), RequestId{7});
  EXPECT_EQ(registry.NameOf(7), "mine");
  EXPECT_TRUE(registry.Abort("mine"));
  EXPECT_EQ(aborted, 1);
  registry.Remove("mine");
  EXPECT_EQ(registry.Find("mine"), std::nullopt);
  EXPECT_EQ(registry.NameOf(7), "");
  EXPECT_FALSE(registry.Abort("mine"));
}

}  // namespace
}  // namespace octavo
