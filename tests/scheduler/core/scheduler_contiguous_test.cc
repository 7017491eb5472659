// The contiguous baselines: one run of adjacent blocks per request, from its start to its end.
#include <numeric>

#include "gtest/gtest.h"
#include "tests/scheduler/core/scheduler_harness.h"

namespace octavo {
namespace {

// 16 blocks of 4 tokens; a request of max_model_len takes 8 of them.
SchedulerConfig ContiguousConfig(KvAllocation allocation) {
  SchedulerConfig config = SmallConfig();
  config.num_blocks = 16;
  config.max_model_len = 32;
  config.kv_allocation = allocation;
  return config;
}

std::vector<BlockId> NewBlocks(const StepPlan& plan) {
  std::vector<BlockId> blocks;
  for (const SeqSlice& slice : plan.slices) {
    blocks.insert(blocks.end(), slice.new_blocks.begin(), slice.new_blocks.end());
  }
  return blocks;
}

std::vector<BlockId> FromTo(BlockId first, BlockId last) {
  std::vector<BlockId> blocks(static_cast<size_t>(last - first + 1));
  std::iota(blocks.begin(), blocks.end(), first);
  return blocks;
}

TEST(SchedulerContiguous, ReserveMaxRunsAsManyAsMaxModelLenLeavesRoomFor) {
  Harness harness(ContiguousConfig(KvAllocation::kContiguousMax));
  for (RequestId id = 1; id <= 3; ++id) harness.Add(MakeRequest(id, 2, 3));
  EXPECT_EQ(NewBlocks(harness.Step()), FromTo(1, 16));
  EXPECT_EQ(harness.scheduler.stats().running, 2);
  EXPECT_TRUE(NewBlocks(harness.Step()).empty()) << "nothing grows";
  const SlotUse use = harness.scheduler.slot_use();
  // Each: prompt 2 and one token fed; one more to feed, the last is never needed.
  EXPECT_EQ(use.used, 2 * 3);
  EXPECT_EQ(use.reserved, 2 * 1);
  EXPECT_EQ(use.internal, 2 * (32 - 4));
  EXPECT_EQ(use.free, 0);
  EXPECT_EQ(use.head_wait, HeadWait::kForBlocks);
}

TEST(SchedulerContiguous, ARunIsFreedWholeAndTheFirstFitTakesIt) {
  Harness harness(ContiguousConfig(KvAllocation::kContiguousOracle));
  harness.Add(MakeRequest(1, 4, 1));   // 2 blocks, 1 and 2
  harness.Add(MakeRequest(2, 4, 12));  // 4 blocks, 3 to 6
  EXPECT_EQ(NewBlocks(harness.Step()), FromTo(1, 6));
  harness.Add(MakeRequest(3, 6, 2));
  EXPECT_EQ(NewBlocks(harness.Step()), FromTo(1, 2));
}

TEST(SchedulerContiguous, FreeBlocksThatLieApartDoNotHelpTheHead) {
  Harness harness(ContiguousConfig(KvAllocation::kContiguousOracle));
  harness.Add(MakeRequest(1, 12, 1));  // 13 tokens: blocks 1 to 4, for one step
  harness.Add(MakeRequest(2, 8, 20));  // 28 tokens: blocks 5 to 11
  harness.Step();
  harness.Add(MakeRequest(3, 16, 10));  // 26 tokens: 7 blocks in a row; 4 and 5 are free
  harness.Step();
  const SlotUse use = harness.scheduler.slot_use();
  EXPECT_EQ(use.head_wait, HeadWait::kForAdjacency);
  EXPECT_EQ(use.external(), 9 * 4);
  EXPECT_EQ(harness.scheduler.stats().adjacency_waits, 1u);
  EXPECT_EQ(harness.scheduler.stats().waiting, 1);
}

TEST(SchedulerContiguous, NobodyIsPreemptedHoweverSmallThePool) {
  for (const KvAllocation allocation : {KvAllocation::kContiguousMax, KvAllocation::kContiguousPow2,
                                        KvAllocation::kContiguousOracle}) {
    Harness harness(ContiguousConfig(allocation));
    for (RequestId id = 1; id <= 20; ++id) {
      harness.Add(MakeRequest(id, 1 + static_cast<int32_t>(id), 11));
    }
    int steps = 0;
    while (!harness.scheduler.idle() && ++steps < 1000) harness.Step();
    const SchedulerStats stats = harness.scheduler.stats();
    EXPECT_EQ(stats.finished_length, 20u);
    EXPECT_EQ(stats.preemptions_pool, 0u);
    EXPECT_EQ(stats.held_slots, 0);
  }
}

TEST(SchedulerContiguous, RefusesWhatNeedsSharing) {
  SchedulerConfig config = ContiguousConfig(KvAllocation::kContiguousPow2);
  Scheduler scheduler(config);
  Request request = MakeRequest(1, 4, 4);
  request.n = 2;
  const absl::Status added = scheduler.Add(std::move(request));
  EXPECT_EQ(added.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(added.message().find("kv_allocation contiguous-pow2"), absl::string_view::npos)
      << added;
  config.prefix_cache = true;
  EXPECT_NE(Validate(config).message().find("kv_allocation is contiguous-pow2"),
            absl::string_view::npos);
}

TEST(SlotUse, APagedRequestWastesOnlyTheEndOfItsLastBlock) {
  Harness harness(SmallConfig());
  harness.Add(MakeRequest(1, 6, 1));  // 6 slots of 8, never more
  harness.Add(MakeRequest(2, 6, 9));  // 6 slots of 8, the rest for later
  harness.Schedule();
  const SlotUse use = harness.scheduler.slot_use();
  EXPECT_EQ(use.used, 12);
  EXPECT_EQ(use.reserved, 2);
  EXPECT_EQ(use.internal, 2);
  EXPECT_EQ(use.left_over(), 0);
  EXPECT_EQ(harness.scheduler.stats().held_slots, 16);
  EXPECT_EQ(harness.scheduler.stats().filled_slots, 12);
}

}  // namespace
}  // namespace octavo
