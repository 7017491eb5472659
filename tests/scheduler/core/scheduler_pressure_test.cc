// What happens when the pool is smaller than the demand.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/core/scheduler.h"
#include "tests/scheduler/core/scheduler_harness.h"

namespace octavo {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Blocks of 4 tokens; the longest request needs 4 of them.
SchedulerConfig TinyPool(int64_t num_blocks) {
  SchedulerConfig config = SmallConfig();
  config.max_model_len = 16;
  config.num_blocks = num_blocks;
  return config;
}

TEST(SchedulerPressure, AJuniorGivesItsBlocksToASeniorAndIsRecomputed) {  // life.3
  Harness harness(TinyPool(4));
  harness.Add(MakeRequest(1, 7, 9));
  harness.Add(MakeRequest(2, 7, 9));
  harness.Step(21);  // both prompts: 2 blocks each, none free
  harness.Step(22);  // position 7 of both
  const StepPlan taken = harness.Step(23);
  EXPECT_THAT(Harness::Sequences(taken), ElementsAre(1));
  EXPECT_THAT(taken.dropped, ElementsAre(2));
  EXPECT_EQ(taken.slices[0].new_blocks.size(), 1u);
  const std::vector<PreemptionEvent> events = harness.scheduler.TakePreemptions();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].request, 2u);
  EXPECT_EQ(events[0].blocks, 2);
  EXPECT_EQ(events[0].tokens_lost, 8);
  EXPECT_EQ(events[0].reason, PreemptionReason::kNoFreeBlocks);
  while (harness.scheduler.stats().running == 1 && harness.scheduler.stats().waiting == 1) {
    harness.Step();
  }
  // The prompt and both tokens it had generated are computed again.
  const StepPlan again = harness.Step();
  const SeqSlice& slice = again.slices.at(0);
  EXPECT_EQ(slice.sequence, 2u);
  EXPECT_TRUE(slice.start.has_value());
  EXPECT_EQ(slice.context_length, 0);
  EXPECT_THAT(slice.tokens, ElementsAre(0, 1, 2, 3, 4, 5, 6, 21, 22));
  EXPECT_TRUE(slice.sample);
}

TEST(SchedulerPressure, ATokenInFlightAtThePreemptionStillCommits) {
  Harness harness(TinyPool(4));
  harness.Add(MakeRequest(1, 7, 9));
  harness.Add(MakeRequest(2, 7, 9));
  harness.Step(21);
  harness.Schedule();                           // position 7 of both
  EXPECT_EQ(harness.Schedule(), std::nullopt);  // 2 gives way, but step 2 names its blocks
  EXPECT_EQ(harness.scheduler.TakePreemptions().size(), 1u);
  EXPECT_EQ(harness.scheduler.stats().waiting_tokens, 8);
  EXPECT_EQ(harness.Schedule(), std::nullopt);  // asking again preempts nobody else
  EXPECT_THAT(harness.scheduler.TakePreemptions(), IsEmpty());
  const std::vector<TokenEvent> events = harness.Commit(22);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[1].request, 2u);
  EXPECT_EQ(events[1].token, 22);
  EXPECT_EQ(harness.scheduler.stats().waiting_tokens, 9);
  EXPECT_THAT(Harness::Sequences(*harness.Schedule()), ElementsAre(1));
}

TEST(SchedulerPressure, APreemptedRequestCanEndByATokenInFlight) {
  Harness harness(TinyPool(4));
  harness.Add(MakeRequest(1, 7, 9));
  harness.Add(MakeRequest(2, 7, 9));
  harness.Step(21);
  harness.Schedule();
  EXPECT_EQ(harness.Schedule(), std::nullopt);
  const std::vector<TokenEvent> events = harness.Commit(22, {{2, kTestEos}});
  EXPECT_EQ(events.at(1).finish, FinishReason::kStop);
  EXPECT_EQ(events.at(1).preemptions, 1);
  EXPECT_EQ(harness.scheduler.stats().waiting, 0);
  // The workers forget its table once, though it was both preempted and ended.
  EXPECT_THAT(harness.Schedule()->dropped, ElementsAre(2));
}

TEST(SchedulerPressure, WaitsForBlocksThatAreComingInsteadOfPreempting) {
  Harness harness(TinyPool(6));
  harness.Add(MakeRequest(1, 7, 9));
  harness.Add(MakeRequest(2, 7, 2));
  harness.Add(MakeRequest(3, 7, 9));
  harness.Step();
  harness.Schedule();  // the last token of 2; position 7 of 1 and 3
  // 1 and 3 need a block each; 2 is about to return two.
  EXPECT_EQ(harness.Schedule(), std::nullopt);
  EXPECT_THAT(harness.scheduler.TakePreemptions(), IsEmpty());
  harness.Commit();
  EXPECT_THAT(Harness::Sequences(*harness.Schedule()), ElementsAre(1, 3));
}

TEST(SchedulerPressure, AJuniorThatFindsNoBlockSitsOutAndKeepsItsOwn) {
  Harness harness(TinyPool(5));
  harness.Add(MakeRequest(1, 8, 3));
  harness.Add(MakeRequest(2, 8, 8));
  EXPECT_THAT(Harness::Sequences(harness.Step()), ElementsAre(1, 2));
  EXPECT_THAT(Harness::Sequences(harness.Step()), ElementsAre(1));  // 1 has taken the last block
  EXPECT_EQ(harness.scheduler.stats().running, 2);
  EXPECT_THAT(harness.scheduler.TakePreemptions(), IsEmpty());
  harness.Step();  // the last token of 1
  const StepPlan plan = harness.Step();
  EXPECT_THAT(Harness::Sequences(plan), ElementsAre(2));
  EXPECT_EQ(plan.slices[0].context_length, 8);  // nothing was computed again
}

TEST(SchedulerPressure, NobodyStartsInAStepThatTookBlocksAway) {
  Harness harness(TinyPool(5));
  harness.Add(MakeRequest(1, 7, 9));
  harness.Add(MakeRequest(2, 12, 4));
  harness.Step();
  harness.Step();  // 1 fills its second block; 2 finds none and sits out
  harness.Add(MakeRequest(3, 3, 2));
  const StepPlan taken = harness.Step();
  EXPECT_THAT(Harness::Sequences(taken), ElementsAre(1));
  EXPECT_EQ(harness.scheduler.TakePreemptions().at(0).request, 2u);
  EXPECT_EQ(harness.scheduler.stats().free_blocks, 2);  // 3 needs one
}

TEST(SchedulerPressure, APreemptedRequestGoesBeforeNewcomers) {
  Harness harness(TinyPool(5));
  harness.Add(MakeRequest(1, 7, 9));
  harness.Add(MakeRequest(2, 12, 4));
  harness.Step();
  harness.Step();
  harness.Step();
  ASSERT_EQ(harness.scheduler.TakePreemptions().at(0).request, 2u);
  harness.Add(MakeRequest(3, 3, 2));
  // 3 would fit beside 1; 2 does not yet, and it is senior.
  EXPECT_THAT(Harness::Sequences(harness.Step()), ElementsAre(1));
  StepPlan plan = harness.Step();
  while (plan.slices.size() == 1 && plan.slices[0].sequence == 1) plan = harness.Step();
  EXPECT_EQ(plan.slices.at(0).sequence, 2u);
}

TEST(SchedulerPressure, TheWatermarkStaysFreeWhileOthersRun) {
  SchedulerConfig config = TinyPool(10);
  config.kv_watermark = 0.5;
  Harness harness(config);
  harness.Add(MakeRequest(1, 7, 2));
  harness.Add(MakeRequest(2, 11, 2));
  harness.Add(MakeRequest(3, 3, 2));
  // 2 + 3 blocks leave 5, the watermark; a third request would go below.
  EXPECT_THAT(Harness::Sequences(harness.Step()), ElementsAre(1, 2));
  EXPECT_EQ(harness.scheduler.stats().waiting, 1);
}

TEST(SchedulerPressure, TheHeadIgnoresTheWatermarkWhenNothingRuns) {  // life.2
  SchedulerConfig config = TinyPool(4);
  config.kv_watermark = 0.9;
  Harness harness(config);
  harness.Add(MakeRequest(1, 15, 1));
  EXPECT_THAT(Harness::Sequences(harness.Step()), ElementsAre(1));
}

TEST(SchedulerPressure, LowerPriorityGivesWayThoughItCameFirst) {
  Harness harness(TinyPool(4));
  Request background = MakeRequest(1, 7, 9);
  background.priority = 5;
  harness.Add(background);
  harness.Add(MakeRequest(2, 7, 9));
  harness.Step();
  harness.Step();
  EXPECT_THAT(Harness::Sequences(harness.Step()), ElementsAre(2));
  EXPECT_EQ(harness.scheduler.TakePreemptions().at(0).request, 1u);
}

TEST(SchedulerPressure, AnImmuneRequestReservesItsWholeLengthAndIsNotTouched) {  // life.3
  SchedulerConfig config = TinyPool(6);
  config.max_preemptions = 0;
  Harness harness(config);
  harness.Add(MakeRequest(1, 3, 13));
  harness.Add(MakeRequest(2, 3, 13));
  const StepPlan first = harness.Step();
  EXPECT_THAT(Harness::Sequences(first), ElementsAre(1));
  EXPECT_EQ(first.slices[0].new_blocks.size(), 4u);
  while (!harness.scheduler.idle()) harness.Step();
  EXPECT_EQ(harness.scheduler.stats().preemptions_pool, 0u);
}

TEST(SchedulerPressure, ManyStreamsOnAFewBlocksAllEnd) {
  Harness harness(TinyPool(7));
  for (RequestId id = 1; id <= 30; ++id) harness.Add(MakeRequest(id, 1 + id % 8, 8));
  int ended = 0;
  while (!harness.scheduler.idle()) {
    const bool scheduled = harness.Schedule().has_value();
    if (harness.in_flight.size() == 2 || !scheduled) {
      for (const TokenEvent& event : harness.Commit()) ended += event.finish.has_value() ? 1 : 0;
    }
  }
  EXPECT_EQ(ended, 30);
  EXPECT_GT(harness.scheduler.stats().preemptions_pool, 0u);
  EXPECT_EQ(harness.scheduler.stats().free_blocks, 7);
}

}  // namespace
}  // namespace octavo
