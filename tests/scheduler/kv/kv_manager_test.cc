#include "scheduler/kv/kv_manager.h"

#include <utility>

#include "gtest/gtest.h"

namespace octavo {
namespace {

TEST(KvManager, ReservesWholeBlocksForTokens) {
  KvManager kv(10, 16);
  BlockTable table;
  std::vector<BlockId> added;
  EXPECT_TRUE(kv.Reserve(&table, 16, &added));
  EXPECT_EQ(added, (std::vector<BlockId>{1}));
  EXPECT_TRUE(kv.Reserve(&table, 17, &added));
  EXPECT_TRUE(kv.Reserve(&table, 32, &added));
  EXPECT_EQ(added, (std::vector<BlockId>{1, 2}));
  EXPECT_EQ(table.blocks(), added);
  EXPECT_EQ(kv.BlocksMissing(table, 33), 1);
  EXPECT_EQ(kv.BlocksMissing(table, 1), 0);
  EXPECT_EQ(kv.num_free(), 8);
}

TEST(KvManager, ReservationIsAllOrNothing) {  // kv.4
  KvManager kv(3, 4);
  BlockTable table;
  std::vector<BlockId> added;
  EXPECT_FALSE(kv.CanReserve(table, 13));
  EXPECT_FALSE(kv.Reserve(&table, 13, &added));
  EXPECT_TRUE(added.empty());
  EXPECT_TRUE(table.empty());
  EXPECT_EQ(kv.num_free(), 3);
  EXPECT_TRUE(kv.CanReserve(table, 12));
}

TEST(KvManager, ReleasesTailFirst) {  // kv.5
  KvManager kv(3, 4);
  BlockTable table;
  std::vector<BlockId> added;
  ASSERT_TRUE(kv.Reserve(&table, 12, &added));
  kv.Release(&table, 0);
  EXPECT_TRUE(table.empty());
  added.clear();
  ASSERT_TRUE(kv.Reserve(&table, 12, &added));
  EXPECT_EQ(added, (std::vector<BlockId>{3, 2, 1}));
}

TEST(KvManager, BlocksReturnWhenTheLastStepThatNamesThemIsCommitted) {  // life.1
  KvManager kv(4, 4);
  BlockTable a;
  BlockTable b;
  std::vector<BlockId> added;
  ASSERT_TRUE(kv.Reserve(&a, 8, &added));
  ASSERT_TRUE(kv.Reserve(&b, 4, &added));
  kv.Release(&a, 2);
  kv.Release(&b, 1);
  EXPECT_EQ(kv.num_free(), 1);
  EXPECT_EQ(kv.num_deferred(), 3);
  kv.CheckInvariants({});
  kv.CommitStep(1);
  EXPECT_EQ(kv.num_free(), 2);
  EXPECT_EQ(kv.num_deferred(), 2);
  kv.CommitStep(2);
  EXPECT_EQ(kv.num_free(), 4);
  EXPECT_EQ(kv.num_deferred(), 0);
}

TEST(KvManager, BlocksOfCommittedStepsReturnAtOnce) {
  KvManager kv(2, 4);
  kv.CommitStep(1);
  BlockTable table;
  std::vector<BlockId> added;
  ASSERT_TRUE(kv.Reserve(&table, 8, &added));
  kv.Release(&table, 1);
  EXPECT_EQ(kv.num_free(), 2);
}

TEST(KvManager, ForgettingStepsReturnsWhatWaitedForThem) {
  KvManager kv(2, 4);
  kv.CommitStep(1);
  BlockTable table;
  std::vector<BlockId> added;
  ASSERT_TRUE(kv.Reserve(&table, 8, &added));
  kv.Release(&table, 2);
  EXPECT_EQ(kv.num_free(), 0);
  kv.ForgetSteps();
  EXPECT_EQ(kv.num_free(), 2);
  kv.CommitStep(1);  // ids start again
}

TEST(KvManagerDeathTest, StepsAreCommittedInOrder) {
  KvManager kv(2, 4);
  EXPECT_DEATH(kv.CommitStep(2), "step=2");
}

TEST(KvManagerDeathTest, ALostTableBreaksTheCounts) {  // kv.1
  KvManager kv(2, 4);
  BlockTable table;
  std::vector<BlockId> added;
  ASSERT_TRUE(kv.Reserve(&table, 4, &added));
  kv.CheckInvariants({&table});
  EXPECT_DEATH(kv.CheckInvariants({}), "holders=0");
  EXPECT_DEATH(kv.CheckInvariants({&table, &table}), "holders=2");
}

}  // namespace
}  // namespace octavo
