// Batching, chunking, pipelining and ends, with blocks to spare.
#include "scheduler/core/scheduler.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/scheduler/core/scheduler_harness.h"

namespace octavo {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Scheduler, NothingToDoIsNoStep) {
  Harness harness(SmallConfig());
  EXPECT_EQ(harness.Schedule(), std::nullopt);
  EXPECT_TRUE(harness.scheduler.idle());
}

TEST(Scheduler, FirstSliceStartsTheTableAndHoldsThePromptsBlocks) {
  Harness harness(SmallConfig());
  Request request = MakeRequest(7, 5, 3);
  request.sampling.seed = 1234;
  harness.Add(request);
  const StepPlan plan = *harness.Schedule();
  EXPECT_EQ(plan.epoch, 1u);
  EXPECT_EQ(plan.step, 1u);
  ASSERT_EQ(plan.slices.size(), 1u);
  const SeqSlice& slice = plan.slices[0];
  ASSERT_TRUE(slice.start.has_value());
  EXPECT_EQ(slice.start->sampling.seed, 1234u);
  EXPECT_EQ(slice.tokens, request.prompt);
  EXPECT_EQ(slice.context_length, 0);
  EXPECT_EQ(slice.new_blocks.size(), 2u);
  EXPECT_TRUE(slice.sample);
  EXPECT_FALSE(slice.feed_sampled);
}

TEST(Scheduler, ChunksAPromptAndSamplesOnlyAtItsEnd) {  // step.2, step.3
  SchedulerConfig config = SmallConfig();
  config.max_prefill_chunk = 7;
  Harness harness(config);
  harness.Add(MakeRequest(1, 16, 3));
  std::vector<int32_t> sizes;
  std::vector<size_t> blocks;
  for (int i = 0; i < 3; ++i) {
    const StepPlan plan = harness.Step();
    const SeqSlice& slice = plan.slices.at(0);
    sizes.push_back(slice.num_tokens);
    blocks.push_back(slice.new_blocks.size());
    EXPECT_EQ(slice.context_length, i * 7);
    EXPECT_EQ(slice.sample, i == 2);
    EXPECT_EQ(slice.start.has_value(), i == 0);
  }
  EXPECT_THAT(sizes, ElementsAre(7, 7, 2));
  EXPECT_THAT(blocks, ElementsAre(2, 2, 0));  // lent as they are written
}

TEST(Scheduler, APromptHoldsWhatIsComputedAndIsPromisedTheRest) {  // kv.4
  SchedulerConfig config = SmallConfig();
  config.num_blocks = 12;
  config.max_model_len = 48;
  config.max_prefill_chunk = 8;
  Harness harness(config);
  harness.Add(MakeRequest(1, 40, 3));
  harness.Step();
  SchedulerStats stats = harness.scheduler.stats();
  EXPECT_EQ(stats.active_blocks, 2);
  EXPECT_EQ(stats.free_blocks, 10);
  EXPECT_EQ(stats.held_slots, stats.filled_slots);
  // 10 blocks are free, and 8 of them promised: a prompt of 3 blocks waits, one of 2 would not.
  harness.Add(MakeRequest(2, 12, 3));
  EXPECT_EQ(harness.Step().slices.size(), 1u);
  EXPECT_EQ(harness.scheduler.stats().waiting, 1);
  // What was promised comes back with the request.
  harness.scheduler.Abort(1);
  harness.scheduler.CheckInvariants();
  EXPECT_EQ(harness.Step().slices.at(0).num_tokens, 8);
  stats = harness.scheduler.stats();
  EXPECT_EQ(stats.active_blocks, 2);
  EXPECT_EQ(stats.waiting, 0);
}

TEST(Scheduler, ALastChunkOfOneTokenIsSentNotFed) {
  SchedulerConfig config = SmallConfig();
  config.max_prefill_chunk = 4;
  Harness harness(config);
  harness.Add(MakeRequest(1, 5, 3));
  harness.Step();
  const StepPlan plan = harness.Step();
  EXPECT_FALSE(plan.slices[0].feed_sampled);
  EXPECT_THAT(plan.slices[0].tokens, ElementsAre(4));
  EXPECT_TRUE(plan.slices[0].sample);
}

TEST(Scheduler, DecodesComeFirstThenPrefillsThenTheWaiting) {
  SchedulerConfig config = SmallConfig();
  config.max_num_batched_tokens = 10;
  Harness harness(config);
  harness.Add(MakeRequest(1, 30, 3));
  harness.Step();  // 10 tokens of sequence 1
  harness.Add(MakeRequest(2, 4, 9));
  Request urgent = MakeRequest(3, 4, 9);
  urgent.priority = -1;
  harness.Add(urgent);
  // 1 goes on alone with its prefill: running before waiting.
  EXPECT_THAT(Harness::Sequences(harness.Step()), ElementsAre(1));
  const StepPlan last_chunk = harness.Step();
  EXPECT_THAT(Harness::Sequences(last_chunk), ElementsAre(1));
  // 1 decodes (1 token), then the urgent one, then as much of 2 as the budget leaves.
  const StepPlan mixed = harness.Step();
  EXPECT_THAT(Harness::Sequences(mixed), ElementsAre(1, 3, 2));
  EXPECT_TRUE(mixed.slices[0].feed_sampled);
  EXPECT_EQ(mixed.slices[2].num_tokens, 4);
}

TEST(Scheduler, KeepsTheTokenAndTheSequenceBudget) {  // step.2
  SchedulerConfig config = SmallConfig();
  config.max_num_batched_tokens = 10;
  config.max_num_seqs = 2;
  Harness harness(config);
  for (RequestId id = 1; id <= 3; ++id) harness.Add(MakeRequest(id, 6, 9));
  const StepPlan plan = harness.Step();
  EXPECT_THAT(Harness::Sequences(plan), ElementsAre(1, 2));
  EXPECT_EQ(plan.slices[0].num_tokens, 6);
  EXPECT_EQ(plan.slices[1].num_tokens, 4);
  EXPECT_EQ(harness.scheduler.stats().waiting, 1);
}

TEST(Scheduler, FeedsATokenThatItHasNotSeen) {  // pipelining
  Harness harness(SmallConfig());
  harness.Add(MakeRequest(1, 5, 4));
  harness.Schedule();
  const StepPlan second = *harness.Schedule();
  EXPECT_TRUE(second.slices[0].feed_sampled);
  EXPECT_THAT(second.slices[0].tokens, IsEmpty());
  EXPECT_EQ(second.slices[0].context_length, 5);
  EXPECT_EQ(second.step, 2u);
  EXPECT_EQ(harness.Schedule(), std::nullopt);  // two are in flight
  EXPECT_EQ(harness.Commit(11).at(0).token, 11);
  EXPECT_EQ(harness.Commit(12).at(0).token, 12);
}

TEST(Scheduler, IsNotScheduledPastMaxTokens) {  // step.6
  Harness harness(SmallConfig());
  harness.Add(MakeRequest(1, 5, 2));
  harness.Schedule();
  harness.Schedule();
  EXPECT_FALSE(harness.Commit().at(0).finish.has_value());
  EXPECT_EQ(harness.Schedule(), std::nullopt);  // its last token is in flight
  const TokenEvent last = harness.Commit().at(0);
  EXPECT_EQ(last.finish, FinishReason::kLength);
  EXPECT_TRUE(harness.scheduler.idle());
  EXPECT_EQ(harness.scheduler.stats().free_blocks, 64);
}

TEST(Scheduler, AStopCostsOneDiscardedToken) {  // life.1
  Harness harness(SmallConfig());
  harness.Add(MakeRequest(1, 5, 9));
  harness.Schedule();
  harness.Schedule();
  const TokenEvent last = harness.Commit(kTestEos).at(0);
  EXPECT_EQ(last.finish, FinishReason::kStop);
  EXPECT_EQ(last.token, kTestEos);
  EXPECT_EQ(harness.scheduler.stats().active_blocks, 2);  // step 2 still names them
  EXPECT_FALSE(harness.scheduler.idle());
  EXPECT_THAT(harness.Commit(5), IsEmpty());
  EXPECT_EQ(harness.scheduler.stats().active_blocks, 0);
  EXPECT_EQ(harness.scheduler.stats().generated_tokens, 1u);
}

TEST(Scheduler, IgnoreEosGoesOnToTheLength) {
  Harness harness(SmallConfig());
  Request request = MakeRequest(1, 5, 2);
  request.ignore_eos = true;
  harness.Add(request);
  harness.Schedule();
  EXPECT_FALSE(harness.Commit(kTestEos).at(0).finish.has_value());
  harness.Schedule();
  EXPECT_EQ(harness.Commit(kTestEos).at(0).finish, FinishReason::kLength);
}

TEST(Scheduler, EosAsTheLastAllowedTokenIsAStop) {
  Harness harness(SmallConfig());
  harness.Add(MakeRequest(1, 5, 1));
  harness.Schedule();
  EXPECT_EQ(harness.Commit(kTestEos).at(0).finish, FinishReason::kStop);
}

TEST(Scheduler, TablesOfEndedSequencesAreDroppedOnce) {
  Harness harness(SmallConfig());
  harness.Add(MakeRequest(1, 5, 1));
  harness.Step();
  harness.Add(MakeRequest(2, 5, 3));
  EXPECT_THAT(harness.Step().dropped, ElementsAre(1));
  EXPECT_THAT(harness.Step().dropped, IsEmpty());
}

TEST(Scheduler, GrowsATableByOneBlockAtABlocksEnd) {
  Harness harness(SmallConfig());
  harness.Add(MakeRequest(1, 7, 9));
  harness.Step();
  EXPECT_THAT(harness.Step().slices[0].new_blocks, IsEmpty());  // position 7
  EXPECT_EQ(harness.Step().slices[0].new_blocks.size(), 1u);    // position 8
  EXPECT_THAT(harness.Step().slices[0].new_blocks, IsEmpty());  // position 9
}

TEST(Scheduler, TheLastEventHasTheUsage) {
  Harness harness(SmallConfig());
  harness.now = absl::UnixEpoch() + absl::Seconds(3);
  harness.Add(MakeRequest(9, 5, 2));
  harness.Schedule();
  harness.now += absl::Seconds(3);
  harness.Commit();
  harness.Schedule();
  const TokenEvent last = harness.Commit().at(0);
  EXPECT_EQ(last.request, 9u);
  EXPECT_EQ(last.prompt_tokens, 5);
  EXPECT_EQ(last.generated_tokens, 2);
  EXPECT_EQ(last.cached_tokens, 0);
  EXPECT_EQ(last.preemptions, 0);
  EXPECT_EQ(last.first_scheduled, absl::UnixEpoch() + absl::Seconds(3));
}

TEST(Scheduler, CarriesLogprobs) {
  Harness harness(SmallConfig());
  harness.Add(MakeRequest(1, 5, 2));
  StepResult result = Harness::Answer(*harness.Schedule());
  result.samples[0].logprob = -0.5f;
  result.samples[0].top = {{.token = 3, .logprob = -0.25f}};
  const TokenEvent event = harness.scheduler.Commit(result).at(0);
  EXPECT_EQ(event.logprob, -0.5f);
  EXPECT_EQ(event.top_logprobs, result.samples[0].top);
}

TEST(Scheduler, CountsWhatHappened) {
  Harness harness(SmallConfig());
  harness.Add(MakeRequest(1, 5, 2));
  harness.Add(MakeRequest(2, 7, 1));
  EXPECT_EQ(harness.scheduler.stats().waiting_tokens, 12);
  harness.Step();
  harness.Step();
  const SchedulerStats stats = harness.scheduler.stats();
  EXPECT_EQ(stats.steps, 2u);
  EXPECT_EQ(stats.prompt_tokens, 12u);
  EXPECT_EQ(stats.generated_tokens, 3u);
  EXPECT_EQ(stats.finished_length, 2u);
  EXPECT_EQ(stats.mean_length, 7.5);
  EXPECT_EQ(stats.free_blocks, 64);
}

TEST(Scheduler, AnIdIsFreeAgainAfterItsEnd) {
  Harness harness(SmallConfig());
  harness.Add(MakeRequest(1, 5, 1));
  EXPECT_EQ(harness.scheduler.Add(MakeRequest(1, 5, 1)).code(), absl::StatusCode::kAlreadyExists);
  harness.Step();
  harness.Add(MakeRequest(1, 5, 1));
  EXPECT_THAT(Harness::Sequences(harness.Step()), ElementsAre(2));
}

TEST(Scheduler, RefusesWhatCannotRunAndWhatDoesNotFitTheQueue) {
  SchedulerConfig config = SmallConfig();
  config.max_queued_requests = 1;
  Harness harness(config);
  EXPECT_EQ(harness.scheduler.Add(MakeRequest(1, 60, 60)).code(),
            absl::StatusCode::kInvalidArgument);
  harness.Add(MakeRequest(1, 5, 1));
  EXPECT_EQ(harness.scheduler.Add(MakeRequest(2, 5, 1)).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(harness.scheduler.stats().waiting, 1);
}

}  // namespace
}  // namespace octavo
