#include "scheduler/core/kv_allocation.h"

#include "gtest/gtest.h"

namespace octavo {
namespace {

TEST(KvAllocation, NamesAreParsedBack) {
  for (const KvAllocation allocation : AllKvAllocations()) {
    EXPECT_EQ(ParseKvAllocation(Name(allocation)), allocation);
  }
  EXPECT_FALSE(ParseKvAllocation("contiguous").has_value());
}

TEST(KvAllocation, ReservesByWhatIsKnownOfTheLength) {
  // The paper's example: 25 output tokens reserve 32 (section 6.1).
  EXPECT_EQ(ReservedTokens(KvAllocation::kContiguousPow2, 100, 25, 2048), 132);
  EXPECT_EQ(ReservedTokens(KvAllocation::kContiguousPow2, 100, 32, 2048), 132);
  EXPECT_EQ(ReservedTokens(KvAllocation::kContiguousPow2, 100, 33, 2048), 164);
  EXPECT_EQ(ReservedTokens(KvAllocation::kContiguousPow2, 100, 1, 2048), 101);
  EXPECT_EQ(ReservedTokens(KvAllocation::kContiguousOracle, 100, 25, 2048), 125);
  EXPECT_EQ(ReservedTokens(KvAllocation::kContiguousMax, 100, 25, 2048), 2048);
}

TEST(KvAllocation, PowersOfTwoEndAtMaxModelLen) {
  EXPECT_EQ(ReservedTokens(KvAllocation::kContiguousPow2, 1000, 600, 1700), 1700);
}

}  // namespace
}  // namespace octavo
