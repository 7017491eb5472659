#include "scheduler/kv/swap_pool.h"

#include "gtest/gtest.h"

namespace octavo {
namespace {

TEST(SwapPool, AHostBlockIsNotLentWhileAStepNamesIt) {  // swap.1
  SwapPool pool(2);
  const BlockId a = pool.Take();
  const BlockId b = pool.Take();
  EXPECT_NE(a, b);
  EXPECT_EQ(pool.num_free(), 0);
  pool.CheckInvariants({a, b});
  pool.Release(a, 2);
  pool.Release(b, 0);
  EXPECT_EQ(pool.num_used(), 1);
  pool.CheckInvariants({});
  pool.CommitStep(1);
  EXPECT_EQ(pool.num_used(), 1);
  pool.CommitStep(2);
  EXPECT_EQ(pool.num_free(), 2);
}

// Each swap went to host memory never used before, until all of --swap-space was touched.
TEST(SwapPool, TheBlockReleasedLastIsLentFirst) {
  SwapPool pool(1000);
  const BlockId first = pool.Take();
  const BlockId second = pool.Take();
  pool.Release(first, 0);
  pool.Release(second, 3);
  pool.CommitStep(3);
  EXPECT_EQ(pool.Take(), second);
  EXPECT_EQ(pool.Take(), first);
}

TEST(SwapPool, AResetEndsTheWaiting) {
  SwapPool pool(1);
  const BlockId host = pool.Take();
  pool.CommitStep(1);
  pool.Release(host, 3);
  pool.ForgetSteps();
  EXPECT_EQ(pool.num_free(), 1);
  pool.Release(pool.Take(), 1);  // of the new epoch
  EXPECT_EQ(pool.num_free(), 0);
  pool.CommitStep(1);
  EXPECT_EQ(pool.num_free(), 1);
}

TEST(SwapPoolDeathTest, ALostHostBlockIsSeen) {
  SwapPool pool(2);
  const BlockId host = pool.Take();
  EXPECT_DEATH(pool.CheckInvariants({}), "host block=1 holders=0");
  EXPECT_DEATH(pool.CheckInvariants({host, host}), "holders=2");
}

}  // namespace
}  // namespace octavo
