#include "worker/cpu/isa.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace octavo {
namespace {

TEST(Isa, EachHasANameOfItsOwn) {
  std::set<std::string> names;
  for (const Isa isa : kIsas) names.insert(Name(isa));
  EXPECT_EQ(names, (std::set<std::string>{"avx2", "avx512", "amx"}));
}

TEST(Isa, TheBestOneIsTheSameWheneverAsked) {
  const Isa best = DetectIsa();
  EXPECT_EQ(DetectIsa(), best);
  // Each contains the ones before it.
  if (best == Isa::kAmx) {
    EXPECT_TRUE(HasVnni());
  }
  if (HasVnni()) {
    EXPECT_GE(best, Isa::kAvx512);
  }
}

}  // namespace
}  // namespace octavo
