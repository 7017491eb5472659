#include "scheduler/transport/prefix_cache_key.h"

#include <cstdlib>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace octavo {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class PrefixCacheKeyTest : public ::testing::Test {
 protected:
  ~PrefixCacheKeyTest() override { unsetenv(kPrefixCacheKeyVariable); }

  static std::string File(const std::string& content) {
    // Tests run beside each other.
    const std::string path = ::testing::TempDir() + "/octavo_prefix_key_" +
                             ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
};

TEST_F(PrefixCacheKeyTest, IsRandomByDefault) {
  const auto one = PrefixCacheKey("");
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(one->size(), 32u);
  EXPECT_NE(*one, *PrefixCacheKey(""));
}

TEST_F(PrefixCacheKeyTest, ComesFromAFileOrFromTheEnvironment) {
  EXPECT_EQ(*PrefixCacheKey(File("0123456789abcdef\n")), "0123456789abcdef");
  setenv(kPrefixCacheKeyVariable, "fedcba9876543210", 1);
  EXPECT_EQ(*PrefixCacheKey(""), "fedcba9876543210");
  EXPECT_THAT(PrefixCacheKey(File("0123456789abcdef")).status().message(), HasSubstr("both set"));
}

TEST_F(PrefixCacheKeyTest, RefusalsDoNotTellTheKey) {
  for (const std::string& key : {std::string("short"), std::string(1025, 'k')}) {
    const absl::Status refused = PrefixCacheKey(File(key)).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(refused.message(), HasSubstr("it must have 16 to 1024"));
    EXPECT_THAT(refused.message(), Not(HasSubstr(key)));
  }
  EXPECT_EQ(PrefixCacheKey("/nowhere/key").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace octavo
