// Scheduler for models whose layers see a window of the tokens: kv.7.
#include <algorithm>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/core/admission.h"
#include "tests/scheduler/core/scheduler_harness.h"

namespace octavo {
namespace {

using testing::HasSubstr;

// One group that sees all, two that see 8 tokens: 3 blocks of 4.
SchedulerConfig WindowConfig() {
  SchedulerConfig config = SmallConfig();
  config.group_windows = {0, 8, 8};
  config.max_model_len = 256;
  config.num_blocks = 128;
  return config;
}

// Blocks that tables hold.
int64_t Held(const Harness& harness) { return harness.scheduler.stats().active_blocks; }

TEST(SchedulerWindows, ALongSequenceHoldsAWindowOfTheWindowedGroups) {
  Harness harness(WindowConfig());
  harness.Add(MakeRequest(1, 10, 200));
  int64_t most = 0;
  for (int32_t length = 10; length < 200; ++length) {
    harness.Step();
    const int64_t rows = (length + 3) / 4;
    EXPECT_LE(Held(harness), rows + 2 * 3) << length;
    most = std::max(most, Held(harness) - rows);
  }
  EXPECT_EQ(most, 2 * 3);  // 13 sees 6 to 13, in rows 1 to 3
}

TEST(SchedulerWindows, APromptIsComputedInAWindowAndAChunk) {
  SchedulerConfig config = WindowConfig();
  config.max_num_batched_tokens = 16;
  config.num_blocks = 64 + 2 * 3;  // a sequence of 256 tokens, and no more
  Harness harness(config);
  harness.Add(MakeRequest(1, 250, 6));
  // A row at a time, when there is no more.
  for (int32_t steps = 0; steps < 80 && !harness.scheduler.idle(); ++steps) harness.Step();
  EXPECT_TRUE(harness.scheduler.idle());
}

TEST(SchedulerWindows, LentBlocksArriveAsReplacementsOfNothing) {
  SchedulerConfig config = WindowConfig();
  config.max_num_batched_tokens = 8;
  Harness harness(config);
  harness.Add(MakeRequest(1, 20, 2));
  const StepPlan first = harness.Step();
  EXPECT_EQ(first.slices[0].new_blocks.size(), 5u * 3);
  EXPECT_EQ(std::count(first.slices[0].new_blocks.begin(), first.slices[0].new_blocks.end(), 0),
            3 * 2);  // rows that the chunk does not reach
  const StepPlan second = harness.Step();
  EXPECT_TRUE(second.slices[0].new_blocks.empty());
  ASSERT_EQ(second.slices[0].replaced.size(), 4u);
  EXPECT_EQ(second.slices[0].replaced[0].index, 2 * 3 + 1);
  EXPECT_TRUE(second.copies.empty());
}

TEST(SchedulerWindows, BlocksReturnAtTheCommitWhateverStepsAreInFlight) {
  Harness harness(WindowConfig());
  harness.Add(MakeRequest(1, 12, 20));
  harness.Schedule();
  harness.Schedule();  // reads 5 to 12
  const int64_t held = Held(harness);
  harness.Commit();
  EXPECT_EQ(Held(harness), held - 2);  // row 0 of both groups: 12 sees 5 to 12
}

TEST(SchedulerWindows, AFoundPrefixNeedsItsLastWindowOnly) {
  SchedulerConfig config = WindowConfig();
  config.prefix_cache = true;
  Harness harness(config);
  harness.Add(MakeRequest(1, 30, 1));
  harness.Step();
  const SchedulerStats before = harness.scheduler.stats();
  EXPECT_EQ(before.cached_blocks, 7 * 3);
  harness.Add(MakeRequest(2, 30, 2));
  const StepPlan plan = *harness.Schedule();
  EXPECT_EQ(plan.slices[0].context_length, 28);
  EXPECT_EQ(harness.scheduler.stats().prefix_hit_tokens, 28u);
  // 8 rows of the first group, and rows 5 to 7 of the others: 28 sees 21.
  EXPECT_EQ(Held(harness), 8 + 2 * 3);
}

TEST(SchedulerWindows, MoreSequencesFitThanIfEveryLayerSawAll) {
  // At their end 8 hold 960 blocks if every layer sees all, and 20 if two groups see 8 tokens.
  SchedulerConfig config = WindowConfig();
  config.num_blocks = 960;
  config.max_num_seqs = 64;
  config.max_num_batched_tokens = 256;
  const auto mean_running = [](const SchedulerConfig& c) {
    Harness harness(c);
    for (RequestId id = 1; id <= 40; ++id) harness.Add(MakeRequest(id, 40, 121));
    int64_t running = 0;  // at once, over the run
    int64_t steps = 0;
    for (; steps < 4000 && !harness.scheduler.idle(); ++steps) {
      harness.Step();
      running += harness.scheduler.stats().running;
    }
    EXPECT_TRUE(harness.scheduler.idle());
    return static_cast<double>(running) / static_cast<double>(steps);
  };
  const double windowed = mean_running(config);
  config.group_windows = {0, 0, 0};
  EXPECT_GE(windowed, 1.8 * mean_running(config));
}

TEST(SchedulerWindows, AnImmuneRequestKeepsWhatItPutAside) {
  SchedulerConfig config = WindowConfig();
  config.max_preemptions = 0;
  config.max_num_batched_tokens = 8;
  config.num_blocks = 70;
  Harness harness(config);
  harness.Add(MakeRequest(1, 100, 40));  // 35 rows of the first group and 2 x 3
  harness.Add(MakeRequest(2, 60, 20));   // 20 and 6: together 67
  for (int step = 0; step < 100 && !harness.scheduler.idle(); ++step) harness.Step();
  EXPECT_TRUE(harness.scheduler.idle());
  EXPECT_EQ(harness.scheduler.stats().preemptions_pool, 0u);
}

TEST(Admission, CountsWhatWindowsKeep) {  // kv.7
  SchedulerConfig config = WindowConfig();
  EXPECT_EQ(MostBlocks(config, 100, 29, 1), 32 + 2 * 3);
  EXPECT_EQ(MostBlocks(config, 4, 5, 1), 3 * 2);
  // Each choice has its own window at the end; short ones share like any.
  EXPECT_EQ(MostBlocks(config, 100, 29, 4), 25 + 4 * 7 + 2 * 4 * 3);
  EXPECT_EQ(MostBlocks(config, 4, 5, 4), 3 * (1 + 4));
  config.num_blocks = 37;
  EXPECT_THAT(std::string(CheckRequest(config, MakeRequest(1, 100, 29)).message()),
              HasSubstr("they need 38 KV blocks"));
}

TEST(SchedulerConfig, TheLongestLengthCountsWindows) {
  SchedulerConfig config = WindowConfig();
  config.num_blocks = 64 + 6;
  EXPECT_TRUE(Validate(config).ok());
  config.num_blocks = 60 + 6;
  EXPECT_THAT(std::string(Validate(config).message()), HasSubstr("hold at most 240"));
  config.num_blocks = 8;  // no window is full yet
  EXPECT_THAT(std::string(Validate(config).message()), HasSubstr("hold at most 8"));
  config.num_blocks = 128;
  config.group_windows = {8, 0};
  EXPECT_THAT(std::string(Validate(config).message()),
              HasSubstr("groups that see more come first"));
  config.group_windows = {};
  EXPECT_THAT(std::string(Validate(config).message()), HasSubstr("number of group_windows is 0"));
}

}  // namespace
}  // namespace octavo
