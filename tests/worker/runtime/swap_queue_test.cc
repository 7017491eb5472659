#include "worker/runtime/swap_queue.h"

#include <cstring>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/cpu/cpu_backend.h"

namespace octavo {
namespace {

class SwapQueueTest : public testing::Test {
 protected:
  SwapQueueTest() : backend_(*CpuBackend::Create({.threads = 1})) {
    pool_ = *KvPool::Create(*backend_, *CacheGeometry::Create({2, 1, 8}, DType::kF32, 8),
                            /*num_blocks=*/6, /*num_swap_blocks=*/4, /*check_swaps=*/true);
  }
  void Fill(BlockId block, int value) {
    std::memset(Data(block), value, static_cast<size_t>(pool_->geometry().bytes_per_block()));
  }
  std::byte* Data(BlockId block) {
    return pool_->view().data + block * pool_->geometry().bytes_per_block();
  }
  bool Holds(BlockId block, int value) {
    for (int64_t i = 0; i < pool_->geometry().bytes_per_block(); ++i)
      if (Data(block)[i] != static_cast<std::byte>(value)) return false;
    return true;
  }

  std::unique_ptr<CpuBackend> backend_;
  std::unique_ptr<KvPool> pool_;
};

TEST_F(SwapQueueTest, BringsWholeBlocksBackToOtherPlaces) {
  SwapQueue queue(*pool_);
  Fill(1, 11);
  Fill(2, 22);
  queue.BeginOuts({.step = 1, .swap_outs = {{1, 4}, {2, 3}}});
  ASSERT_TRUE(queue.FinishOuts().ok());
  Fill(1, 0);
  Fill(2, 0);
  ASSERT_TRUE(queue.FinishIns({.step = 2, .swap_ins = {{5, 4}, {6, 3}}}).ok());
  EXPECT_TRUE(Holds(5, 11));
  EXPECT_TRUE(Holds(6, 22));
}

TEST_F(SwapQueueTest, InsBeginWhenThePlanArrivesAndOnlyOnce) {
  SwapQueue queue(*pool_);
  Fill(1, 11);
  queue.BeginOuts({.step = 1, .swap_outs = {{1, 1}}});
  ASSERT_TRUE(queue.FinishOuts().ok());
  const StepPlan plan = {.step = 1, .swap_ins = {{5, 1}}};
  queue.BeginIns(plan);
  ASSERT_TRUE(queue.FinishIns(plan).ok());
  EXPECT_TRUE(Holds(5, 11));
  // A plan that comes again, when its sequence has already written into the block.
  Fill(5, 55);
  queue.BeginIns(plan);
  EXPECT_EQ(*queue.FinishIns(plan), 0);
  EXPECT_TRUE(Holds(5, 55));
  // A step that is not the next is left to its turn; one out of range to the plan check.
  queue.BeginIns({.step = 4, .swap_ins = {{6, 1}}});
  queue.BeginIns({.step = 2, .swap_ins = {{6, 9}}});
  EXPECT_EQ(*queue.FinishIns({.step = 2}), 0);
  EXPECT_FALSE(Holds(6, 11));
}

TEST_F(SwapQueueTest, AHostBlockThatChangedEndsTheProcess) {
  ASSERT_TRUE(pool_->SwapOut({{1, 2}}).ok());
  ASSERT_TRUE(pool_->SwapIn({{3, 2}}).ok());
  pool_->host_block(2)[17] ^= std::byte{1};
  EXPECT_DEATH(pool_->SwapIn({{3, 2}}).IgnoreError(),
               "host block 2 does not hold what was swapped out");
}

}  // namespace
}  // namespace octavo
