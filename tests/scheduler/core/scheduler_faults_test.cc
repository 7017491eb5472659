// Aborts, worker resets and answers that do not fit.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/core/scheduler.h"
#include "tests/scheduler/core/scheduler_harness.h"

namespace octavo {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(SchedulerAbort, AWaitingRequestEndsAtOnce) {
  Harness harness(SmallConfig());
  harness.Add(MakeRequest(1, 5, 3));
  harness.scheduler.Abort(1);
  const std::vector<TokenEvent> events = harness.scheduler.TakeAbortEvents();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].finish, FinishReason::kAbort);
  EXPECT_FALSE(events[0].token.has_value());
  EXPECT_EQ(events[0].prompt_tokens, 5);
  EXPECT_EQ(events[0].first_scheduled, absl::InfiniteFuture());
  EXPECT_TRUE(harness.scheduler.idle());
  EXPECT_EQ(harness.scheduler.stats().mean_length, 0);
  EXPECT_THAT(harness.scheduler.TakeAbortEvents(), IsEmpty());
}

TEST(SchedulerAbort, BlocksReturnWhenNoUncommittedStepNamesThem) {  // life.1
  Harness harness(SmallConfig());
  harness.Add(MakeRequest(1, 5, 9));
  harness.Schedule();
  harness.Schedule();
  harness.scheduler.Abort(1);
  harness.scheduler.CheckInvariants();
  EXPECT_EQ(harness.scheduler.stats().running, 0);
  EXPECT_EQ(harness.Schedule(), std::nullopt);
  EXPECT_THAT(harness.Commit(), IsEmpty());
  EXPECT_EQ(harness.scheduler.stats().active_blocks, 2);
  EXPECT_THAT(harness.Commit(), IsEmpty());
  EXPECT_EQ(harness.scheduler.stats().active_blocks, 0);
  EXPECT_EQ(harness.scheduler.stats().finished_abort, 1u);
}

TEST(SchedulerAbort, UnknownAndEndedIdsAreFine) {
  Harness harness(SmallConfig());
  harness.scheduler.Abort(77);
  harness.Add(MakeRequest(1, 5, 1));
  harness.Step();
  harness.scheduler.Abort(1);
  EXPECT_THAT(harness.scheduler.TakeAbortEvents(), IsEmpty());
}

TEST(SchedulerAbort, TheIdCanBeUsedWhileTheOldStepIsInFlight) {
  Harness harness(SmallConfig());
  harness.Add(MakeRequest(1, 5, 9));
  harness.Schedule();
  harness.scheduler.Abort(1);
  harness.Add(MakeRequest(1, 3, 9));
  const StepPlan plan = *harness.Schedule();
  EXPECT_THAT(plan.dropped, ElementsAre(1));
  EXPECT_THAT(Harness::Sequences(plan), ElementsAre(2));
  EXPECT_THAT(harness.Commit(), IsEmpty());
  EXPECT_EQ(harness.Commit().size(), 1u);
}

TEST(SchedulerReset, EverythingRunningIsRecomputedInANewEpoch) {
  Harness harness(SmallConfig());
  harness.Add(MakeRequest(1, 5, 9));
  harness.Add(MakeRequest(2, 5, 9));
  harness.Step(21);
  harness.Schedule();
  harness.Schedule();
  harness.scheduler.ResetWorkers();
  harness.in_flight.clear();
  harness.scheduler.CheckInvariants();
  EXPECT_EQ(harness.scheduler.epoch(), 2u);
  EXPECT_EQ(harness.scheduler.stats().steps_in_flight, 0);
  EXPECT_EQ(harness.scheduler.stats().free_blocks, 64);
  EXPECT_EQ(harness.scheduler.stats().preemptions_reset, 2u);
  EXPECT_EQ(harness.scheduler.TakePreemptions().at(0).reason, PreemptionReason::kWorkerReset);

  const StepPlan plan = *harness.Schedule();
  EXPECT_EQ(plan.epoch, 2u);
  EXPECT_EQ(plan.step, 1u);
  EXPECT_THAT(plan.dropped, IsEmpty());
  EXPECT_THAT(Harness::Sequences(plan), ElementsAre(1, 2));
  EXPECT_TRUE(plan.slices[0].start.has_value());
  // The tokens that were in flight are not known: they are sampled again.
  EXPECT_THAT(plan.slices[0].tokens, ElementsAre(0, 1, 2, 3, 4, 21));
  EXPECT_EQ(harness.Commit(22).size(), 2u);
}

TEST(SchedulerReset, PendingDropsAreForgottenWithTheMirror) {
  Harness harness(SmallConfig());
  harness.Add(MakeRequest(1, 5, 1));
  harness.Step();
  harness.scheduler.ResetWorkers();
  harness.Add(MakeRequest(2, 5, 1));
  EXPECT_THAT(harness.Step().dropped, IsEmpty());
}

TEST(SchedulerReset, DoesNotCountTowardsImmunity) {
  SchedulerConfig config = SmallConfig();
  config.max_preemptions = 1;
  Harness harness(config);
  harness.Add(MakeRequest(1, 5, 40));
  for (int i = 0; i < 3; ++i) {
    harness.Step();
    harness.scheduler.ResetWorkers();
    harness.scheduler.CheckInvariants();
  }
  EXPECT_EQ(harness.Step().slices[0].new_blocks.size(), 2u);  // not the 11 of its whole length
}

std::string Refusal(const Scheduler& scheduler, const StepResult& result) {
  const absl::Status status = scheduler.CheckResult(result);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(SchedulerCheckResult, RefusesAnswersThatDoNotFitTheOldestStep) {  // step.1
  Harness harness(SmallConfig());
  EXPECT_THAT(Refusal(harness.scheduler, StepResult{.epoch = 1, .step = 1}),
              HasSubstr("no step is in flight"));
  harness.Add(MakeRequest(1, 5, 9));
  const StepResult good = Harness::Answer(*harness.Schedule());
  EXPECT_TRUE(harness.scheduler.CheckResult(good).ok());

  StepResult bad = good;
  bad.step = 2;
  EXPECT_THAT(Refusal(harness.scheduler, bad), HasSubstr("step 2; expected epoch 1 step 1"));
  bad = good;
  bad.epoch = 9;
  EXPECT_THAT(Refusal(harness.scheduler, bad), HasSubstr("epoch 9"));
  bad = good;
  bad.samples.clear();
  EXPECT_THAT(Refusal(harness.scheduler, bad), HasSubstr("has 0 samples"));
  bad = good;
  bad.samples.push_back(bad.samples[0]);
  EXPECT_THAT(Refusal(harness.scheduler, bad), HasSubstr("has 2 samples; expected 1"));
  bad = good;
  bad.samples[0].sequence = 5;
  EXPECT_THAT(Refusal(harness.scheduler, bad), HasSubstr("of sequence 5; expected 1"));
  bad = good;
  bad.samples[0].token = 100;
  EXPECT_THAT(Refusal(harness.scheduler, bad), HasSubstr("sampled token 100"));
  EXPECT_DEATH(harness.scheduler.Commit(bad), "sampled token 100");
}

}  // namespace
}  // namespace octavo
