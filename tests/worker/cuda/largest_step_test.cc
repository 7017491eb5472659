// The largest step is run before the KV cache is sized, on an emulated card that has just so much
// memory: what was measured is what it takes, and blocks get the rest.
#include "worker/runtime/largest_step.h"

#include <cstdio>
#include <mutex>
#include <string>
#include <vector>

#include "common/checkpoint/dummy_checkpoint.h"
#include "common/log.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/emulation/emulation.h"
#include "tests/emulation/stand_in_runtime.h"
#include "tests/worker/model/loaded_model.h"
#include "worker/model/weights.h"
#include "worker/runtime/make_device.h"
#include "worker/runtime/model_runner.h"

namespace octavo {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kMiB = int64_t{1} << 20;

WorkerConfig Config(int64_t num_blocks = 0) {
  WorkerConfig config;
  config.epoch = 1;
  config.kv_dtype = DType::kBF16;
  config.block_size = 16;
  config.max_model_len = 64;
  config.max_num_seqs = 3;
  config.max_num_batched_tokens = 24;
  config.num_blocks = num_blocks;
  return config;
}

class LargestStepTest : public ::testing::Test {
 protected:
  void SetUp() override {
    SetLogSink([this](LogLevel level, absl::string_view message) {
      const std::lock_guard lock(mutex_);
      if (level == LogLevel::kWarning) warnings_ += std::string(message) + "\n";
    });
    loaded_.checkpoint = *OpenModel("smollm2-135m", "dummy");
    DeviceOptions cuda;
    cuda.backend = "cuda";
    loaded_.backend = *MakeDevice(cuda, *loaded_.checkpoint);
    loaded_.model = *LoadModel(*loaded_.checkpoint, *loaded_.backend, nullptr);
  }
  ~LargestStepTest() override {
    loaded_.model.reset();
    loaded_.backend.reset();
    emulation::GetOptions() = options_;
    emulation::GetHiddenMemory() = {};
    SetLogSink([](LogLevel, absl::string_view message) {
      std::fprintf(stderr, "%s\n", std::string(message).c_str());
    });
  }
  int64_t UsedBytes() {
    const DeviceMemory memory = *loaded_.backend->Memory();
    return memory.total_bytes - memory.free_bytes;
  }
  // A card with so much memory beside what is in use.
  static void LeaveFree(int64_t bytes) {
    emulation::GetOptions().device_bytes =
        static_cast<int64_t>(emulation::StandInRuntime::Get().device_bytes_used()) + bytes;
  }
  // Runs the largest steps in a cache of as many blocks as fit.
  void ExpectFits(ModelRunner& runner, int64_t num_blocks) {
    const absl::StatusOr<WorkerCapacity> configured = runner.Configure(Config(num_blocks));
    ASSERT_TRUE(configured.ok()) << configured.status();
    for (const StepPlan& plan : LargestSteps(Config(num_blocks), 1)) {
      const absl::StatusOr<StepResult> result = runner.Execute(plan);
      ASSERT_TRUE(result.ok()) << result.status();
    }
  }

  const emulation::Options options_ = emulation::GetOptions();
  std::mutex mutex_;
  std::string warnings_;
  LoadedModel loaded_;
};

TEST_F(LargestStepTest, BlocksGetAllThatItLeaves) {
  LeaveFree(40 * kMiB);
  ModelRunner runner(*loaded_.backend, *loaded_.model, {.utilization = 1.0});
  const absl::StatusOr<WorkerCapacity> capacity = runner.Configure(Config());
  ASSERT_TRUE(capacity.ok()) << capacity.status();
  EXPECT_FALSE(runner.configured());
  // What the step takes and what blocks get are the card, but for what allocations are rounded by.
  EXPECT_LE(capacity->activation_bytes + capacity->kv_budget_bytes, 40 * kMiB);
  EXPECT_GT(capacity->activation_bytes + capacity->kv_budget_bytes, 40 * kMiB - 16 * 1024);
  EXPECT_GT(capacity->num_blocks, 50);  // of 360 KiB
  EXPECT_EQ(warnings_, "");
  ExpectFits(runner, capacity->num_blocks);
  // Asked again, nothing is run, and the answer is the same.
  const absl::StatusOr<WorkerCapacity> again = runner.Configure(Config());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(runner.num_sequences(), 3u);
  EXPECT_NEAR(static_cast<double>(again->num_blocks), static_cast<double>(capacity->num_blocks), 1);
}

// And it is said that the computed value was too small.
TEST_F(LargestStepTest, WhatLibrariesTakeUnaskedIsCounted) {
  LeaveFree(200 * kMiB);
  emulation::GetHiddenMemory() = {.graph_bytes = kMiB / 2, .library_bytes = 60 * kMiB};
  ModelRunner runner(*loaded_.backend, *loaded_.model, {.utilization = 1.0});
  const absl::StatusOr<WorkerCapacity> capacity = runner.Configure(Config());
  ASSERT_TRUE(capacity.ok()) << capacity.status();
  // 64 graphs may be kept, of which one is there; it and the library stay in use.
  EXPECT_GT(capacity->activation_bytes, 63 * kMiB / 2);
  EXPECT_LE(capacity->activation_bytes + capacity->kv_budget_bytes, 140 * kMiB);
  EXPECT_GT(capacity->activation_bytes + capacity->kv_budget_bytes, 139 * kMiB);
  EXPECT_THAT(warnings_, AllOf(HasSubstr("more memory than was computed measured="),
                               HasSubstr("of libraries=60.5 MiB of graphs=32.0 MiB computed=")));
  ExpectFits(runner, capacity->num_blocks);
}

TEST_F(LargestStepTest, AFixedNumberOfBlocksNeedsNoMeasurement) {
  emulation::GetHiddenMemory().library_bytes = kMiB;
  const int64_t before = UsedBytes();
  ModelRunner runner(*loaded_.backend, *loaded_.model, {.num_blocks = 9});
  const absl::StatusOr<WorkerCapacity> capacity = runner.Configure(Config());
  ASSERT_TRUE(capacity.ok()) << capacity.status();
  EXPECT_EQ(capacity->num_blocks, 9);
  EXPECT_EQ(UsedBytes(), before);
}

TEST_F(LargestStepTest, SaysWhatDoesNotFit) {
  ModelRunner runner(*loaded_.backend, *loaded_.model, {.utilization = 1.0});
  const auto expect = [&](const WorkerConfig& config, const std::string& what) {
    const absl::Status status = runner.Configure(config).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(what));
    runner.Forget();
  };
  LeaveFree(60 * kMiB);
  expect(Config(1000), "the KV cache of 1000 blocks: 369008640 bytes do not fit on the device: ");
  // What was computed would leave room for blocks, what the library takes does not.
  emulation::GetHiddenMemory().library_bytes = 200 * kMiB;
  expect(Config(), "the largest step, --max-num-batched-tokens 24 and --max-num-seqs 3: ");
  emulation::GetHiddenMemory() = {};
  LeaveFree(56 * kMiB);
  WorkerConfig large = Config(1);
  large.max_num_batched_tokens = 4096;
  expect(large, "results of attention, 4096 x 576 floats: ");
  large.max_num_batched_tokens = 6000;
  LeaveFree(1 * kMiB);
  expect(large, "workspace of the largest step: rows that enter products: ");
  loaded_.model.reset();
  LeaveFree(90 * kMiB);
  const absl::Status status = LoadModel(*loaded_.checkpoint, *loaded_.backend, nullptr).status();
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("weight "), HasSubstr(" are free")));
}

TEST(LargestSteps, FillTokensSequencesAndBlocks) {
  const auto check = [](const WorkerConfig& config, int64_t tokens, size_t sequences,
                        int32_t num_groups = 1) {
    const std::vector<StepPlan> plans = LargestSteps(config, num_groups);
    int64_t total = 0, blocks = 0;
    for (const SeqSlice& slice : plans[0].slices) {
      EXPECT_LE(slice.num_tokens, config.max_model_len);
      total += slice.num_tokens;
      blocks += static_cast<int64_t>(slice.new_blocks.size());
      EXPECT_EQ(slice.new_blocks.size() % static_cast<size_t>(num_groups), 0u);
    }
    EXPECT_EQ(total, tokens);
    EXPECT_EQ(plans[0].slices.size(), sequences);
    EXPECT_LE(blocks, config.num_blocks);
    for (const StepPlan& plan : plans) EXPECT_EQ(plan.slices.size(), sequences);
    return plans.size();
  };
  EXPECT_EQ(check(Config(20), 24, 3), 4u);
  EXPECT_EQ(check(Config(3), 24, 3), 4u);  // 13 + 10 + 1 tokens
  EXPECT_EQ(check(Config(1), 13, 1), 4u);  // a block less three decodes
  EXPECT_EQ(check(Config(7), 24, 3, 2), 4u);
  WorkerConfig one = Config(20);
  one.max_model_len = 1;
  EXPECT_EQ(check(one, 3, 3), 1u);
  WorkerConfig few_tokens = Config(20);
  few_tokens.max_num_batched_tokens = 2;
  EXPECT_EQ(check(few_tokens, 2, 2), 4u);
  WorkerConfig long_step = Config(400);
  long_step.max_num_batched_tokens = 150;
  EXPECT_EQ(check(long_step, 150, 3), 4u);  // 61 + 61 + 28
}

}  // namespace
}  // namespace octavo
