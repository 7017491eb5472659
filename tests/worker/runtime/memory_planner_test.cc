#include "worker/runtime/memory_planner.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace octavo {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kGiB = int64_t{1} << 30;

// SmolLM2-135M in bf16: 23,040 bytes a token, 368,640 a block of 16.
CacheGeometry SmolGeometry() { return *CacheGeometry::Create({30, 3, 64}, DType::kBF16, 16); }

constexpr DeviceMemory kMemory = {.total_bytes = 16 * kGiB, .free_bytes = 10 * kGiB};
constexpr MemoryUse kUse = {.weight_bytes = 100 * kMiB, .activation_bytes = 200 * kMiB};

WorkerCapacity Plan(const MemoryFlags& flags, const DeviceMemory& memory = kMemory) {
  const absl::StatusOr<WorkerCapacity> capacity =
      PlanHostMemory(flags, memory, kUse, SmolGeometry());
  EXPECT_TRUE(capacity.ok()) << capacity.status();
  return capacity.value_or(WorkerCapacity{});
}

TEST(MemoryPlanner, TakesAtMostFourGiBUnlessTold) {
  const WorkerCapacity capacity = Plan({});
  EXPECT_EQ(capacity.kv_budget_bytes, 4 * kGiB);
  EXPECT_EQ(capacity.num_blocks, 4 * kGiB / 368640 - 1);
  EXPECT_EQ(capacity.weight_bytes, kUse.weight_bytes);
  EXPECT_EQ(capacity.activation_bytes, kUse.activation_bytes);
  EXPECT_THAT(capacity.budget_reason, HasSubstr("min(4 GiB, half of 9.8 GiB free"));
}

TEST(MemoryPlanner, TakesHalfOfWhatTheLargestStepLeavesOnASmallMachine) {
  const WorkerCapacity capacity = Plan({}, {.total_bytes = 4 * kGiB, .free_bytes = 1200 * kMiB});
  EXPECT_EQ(capacity.kv_budget_bytes, 500 * kMiB);
}

TEST(MemoryPlanner, NothingFreeIsNoBlocksAndNoError) {
  EXPECT_EQ(Plan({}, {.total_bytes = kGiB, .free_bytes = 100 * kMiB}).num_blocks, 0);
}

TEST(MemoryPlanner, UtilizationIsAShareOfTheWholeMemory) {
  const WorkerCapacity capacity = Plan({.utilization = 0.5});
  EXPECT_EQ(capacity.kv_budget_bytes, 8 * kGiB - 300 * kMiB);
  EXPECT_THAT(capacity.budget_reason, HasSubstr("0.5 of 16.0 GiB"));
}

TEST(MemoryPlanner, UtilizationCannotTakeWhatOthersHold) {
  const WorkerCapacity capacity = Plan({.utilization = 0.9});
  EXPECT_EQ(capacity.kv_budget_bytes, 10 * kGiB - 200 * kMiB);
  EXPECT_THAT(capacity.budget_reason, HasSubstr("but only 9.8 GiB are free"));
}

TEST(MemoryPlanner, BytesOverrideTheShareAndBlocksOverrideBoth) {
  WorkerCapacity capacity = Plan({.kv_cache_bytes = 512 * kMiB, .utilization = 0.9});
  EXPECT_EQ(capacity.kv_budget_bytes, 512 * kMiB);
  EXPECT_EQ(capacity.num_blocks, 512 * kMiB / 368640 - 1);
  capacity = Plan({.num_blocks = 400, .kv_cache_bytes = 512 * kMiB, .utilization = 0.9});
  EXPECT_EQ(capacity.num_blocks, 400);
  EXPECT_EQ(capacity.kv_budget_bytes, 401 * 368640);
}

TEST(MemoryPlanner, SwapSpaceIsAQuarterOfWhatIsFreeUnlessTold) {
  EXPECT_EQ(Plan({}).num_swap_blocks, (10 * kGiB - 200 * kMiB) / 4 / 368640);
  EXPECT_EQ(Plan({}, {.total_bytes = 64 * kGiB, .free_bytes = 60 * kGiB}).num_swap_blocks,
            4 * kGiB / 368640);
  EXPECT_EQ(Plan({.swap_bytes = 0}).num_swap_blocks, 0);
  EXPECT_EQ(Plan({.num_blocks = 400, .swap_bytes = 100 * kMiB}).num_swap_blocks,
            100 * kMiB / 368640);
}

// An 80 GiB card with 4 GiB in use, on a host with 10 GiB free.
WorkerCapacity PlanCard(const MemoryFlags& flags, int64_t used_bytes = 4 * kGiB) {
  const DeviceMemory card = {80 * kGiB, 80 * kGiB - used_bytes, /*dedicated=*/true};
  const absl::StatusOr<WorkerCapacity> capacity =
      PlanDeviceMemory(flags, card, 10 * kGiB, kUse, SmolGeometry());
  EXPECT_TRUE(capacity.ok()) << capacity.status();
  return capacity.value_or(WorkerCapacity{});
}

TEST(MemoryPlanner, ACardGivesNineTenthsLessWhatIsInUse) {
  const WorkerCapacity capacity = PlanCard({});
  EXPECT_EQ(capacity.kv_budget_bytes, 72 * kGiB - 4 * kGiB - kUse.activation_bytes);
  EXPECT_THAT(capacity.budget_reason,
              HasSubstr("--gpu-memory-utilization 0.9 of 80.0 GiB, less 4.0 GiB in use"));
  EXPECT_EQ(PlanCard({.utilization = 0.5}).kv_budget_bytes,
            40 * kGiB - 4 * kGiB - kUse.activation_bytes);
  EXPECT_EQ(PlanCard({}, 75 * kGiB).num_blocks, 0);
  EXPECT_EQ(PlanCard({.num_blocks = 7}).num_blocks, 7);
  EXPECT_EQ(PlanCard({.kv_cache_bytes = kGiB}).kv_budget_bytes, kGiB);
}

TEST(MemoryPlanner, ACardsSwappedBlocksGoToTheHost) {
  EXPECT_EQ(PlanCard({}).num_swap_blocks, 10 * kGiB / 4 / 368640);
  EXPECT_EQ(PlanCard({.swap_bytes = kGiB}).num_swap_blocks, kGiB / 368640);
}

TEST(MemoryPlanner, RefusesFlagsOutOfRangeByName) {
  const auto error = [](const MemoryFlags& flags) {
    return std::string(PlanHostMemory(flags, kMemory, kUse, SmolGeometry()).status().message());
  };
  EXPECT_THAT(error({.utilization = 1.5}), HasSubstr("--gpu-memory-utilization is 1.5"));
  EXPECT_THAT(error({.utilization = 0.0}), HasSubstr("(0, 1]"));
  EXPECT_THAT(error({.kv_cache_bytes = -1}), HasSubstr("--kv-cache-memory-bytes is -1"));
  EXPECT_THAT(error({.num_blocks = -2}), HasSubstr("--num-gpu-blocks-override is -2"));
  EXPECT_THAT(error({.num_blocks = int64_t{1} << 40}), HasSubstr("31 bits"));
}

}  // namespace
}  // namespace octavo
