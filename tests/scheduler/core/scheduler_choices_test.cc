// Requests with several choices: they share until they diverge.
#include <map>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/core/scheduler.h"
#include "tests/scheduler/core/scheduler_harness.h"

namespace octavo {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Request WithChoices(RequestId id, int32_t prompt, int32_t n, int32_t max_tokens) {
  Request request = MakeRequest(id, prompt, max_tokens);
  request.n = n;
  return request;
}

TEST(SchedulerChoices, ThePromptIsComputedOnceAndSampledForEach) {
  Harness harness(SmallConfig());
  Request request = WithChoices(1, 6, 3, 4);
  request.sampling.seed = 9;
  harness.Add(request);
  const StepPlan plan = *harness.Schedule();
  ASSERT_THAT(plan.slices, SizeIs(1));
  EXPECT_EQ(plan.slices[0].num_tokens, 6);
  EXPECT_EQ(plan.slices[0].start->choice_index, 0u);
  EXPECT_THAT(plan.slices[0].forks, ElementsAre(Fork{2, 1}, Fork{3, 2}));
  EXPECT_EQ(harness.scheduler.stats().active_blocks, 2);
  EXPECT_EQ(harness.scheduler.stats().saved_blocks, 4);
  const std::vector<TokenEvent> events = harness.Commit(0, {{1, 11}, {2, 12}, {3, 13}});
  ASSERT_THAT(events, SizeIs(3));
  for (int32_t choice = 0; choice < 3; ++choice) {
    EXPECT_EQ(events[static_cast<size_t>(choice)].choice_index, choice);
    EXPECT_EQ(events[static_cast<size_t>(choice)].token, 11 + choice);
  }
}

TEST(SchedulerChoices, AllButTheLastWriterCopyTheSharedBlock) {  // kv.2
  SchedulerConfig config = SmallConfig();
  config.block_size = 16;
  config.max_model_len = 256;
  config.max_num_batched_tokens = 128;
  Harness harness(config);
  harness.Add(WithChoices(1, 100, 8, 30));
  harness.Step();
  EXPECT_EQ(harness.scheduler.stats().active_blocks, 7);
  const StepPlan plan = harness.Step();
  EXPECT_THAT(plan.slices, SizeIs(8));
  EXPECT_THAT(plan.copies, SizeIs(7));
  std::set<BlockId> targets;
  for (size_t i = 0; i < plan.copies.size(); ++i) {
    EXPECT_EQ(plan.copies[i].source, 7);
    EXPECT_THAT(plan.slices[i].replaced, ElementsAre(BlockReplacement{6, plan.copies[i].target}));
    targets.insert(plan.copies[i].target);
  }
  EXPECT_THAT(targets, SizeIs(7));
  EXPECT_THAT(plan.slices[7].replaced, IsEmpty());
  while (!harness.scheduler.idle()) harness.Step();
  EXPECT_EQ(harness.scheduler.stats().copies_on_write, 7u);
  EXPECT_EQ(harness.scheduler.stats().prompt_tokens, 100u);
}

TEST(SchedulerChoices, APromptOfFullBlocksIsSharedWithoutCopies) {
  Harness harness(SmallConfig());
  harness.Add(WithChoices(1, 8, 4, 5));
  while (!harness.scheduler.idle()) harness.Step();
  EXPECT_EQ(harness.scheduler.stats().copies_on_write, 0u);
  EXPECT_EQ(harness.scheduler.stats().saved_blocks_total, 6u);
}

TEST(SchedulerChoices, EachEndsByItselfAndTheLastEndsTheRequest) {
  Harness harness(SmallConfig());
  harness.Add(WithChoices(1, 5, 3, 3));
  harness.Schedule();
  std::vector<TokenEvent> events = harness.Commit(5, {{2, kTestEos}});
  EXPECT_EQ(events.at(1).finish, FinishReason::kStop);
  EXPECT_EQ(events.at(1).generated_tokens, 1);
  EXPECT_FALSE(events.at(1).request_ended);
  const StepPlan plan = *harness.Schedule();
  EXPECT_THAT(Harness::Sequences(plan), ElementsAre(1, 3));
  EXPECT_THAT(plan.dropped, ElementsAre(2));
  EXPECT_EQ(harness.scheduler.stats().finished_stop, 0u);
  harness.Commit(5);
  harness.Schedule();
  events = harness.Commit(5);
  ASSERT_THAT(events, SizeIs(2));
  EXPECT_FALSE(events[0].request_ended);
  EXPECT_TRUE(events[1].request_ended);
  // Facts of the request are the same in every end: they are counted once.
  for (const TokenEvent& event : events) {
    EXPECT_EQ(event.finish, FinishReason::kLength);
    EXPECT_EQ(event.prompt_tokens, 5);
    EXPECT_EQ(event.generated_tokens, 3);
  }
  EXPECT_TRUE(harness.scheduler.idle());
  EXPECT_EQ(harness.scheduler.stats().finished_length, 1u);
  EXPECT_EQ(harness.scheduler.stats().free_blocks, 64);
  EXPECT_EQ(harness.scheduler.stats().mean_length, 5 + 7);
}

TEST(SchedulerChoices, AnAbortEndsThemAllBornOrNot) {
  Harness harness(SmallConfig());
  harness.Add(WithChoices(1, 5, 3, 9));
  harness.Add(WithChoices(2, 5, 2, 9));
  harness.scheduler.Abort(2);
  std::vector<TokenEvent> events = harness.scheduler.TakeAbortEvents();
  ASSERT_THAT(events, SizeIs(2));
  EXPECT_EQ(events[1].choice_index, 1);
  EXPECT_TRUE(events[1].request_ended);
  EXPECT_EQ(events[1].generated_tokens, 0);
  harness.Schedule();
  harness.Schedule();
  harness.scheduler.Abort(1);
  events = harness.scheduler.TakeAbortEvents();
  ASSERT_THAT(events, SizeIs(3));
  EXPECT_FALSE(events[1].request_ended);
  EXPECT_TRUE(events[2].request_ended);
  EXPECT_THAT(harness.Commit(), IsEmpty());
  EXPECT_THAT(harness.Commit(), IsEmpty());
  EXPECT_EQ(harness.scheduler.stats().finished_abort, 2u);
  EXPECT_EQ(harness.scheduler.stats().free_blocks, 64);
}

TEST(SchedulerChoices, CountAgainstTheSequencesOfAStep) {  // step.2
  SchedulerConfig config = SmallConfig();
  config.max_num_seqs = 4;
  Harness harness(config);
  harness.Add(WithChoices(1, 5, 3, 9));
  harness.Add(WithChoices(2, 5, 2, 9));
  EXPECT_THAT(Harness::Sequences(harness.Step()), ElementsAre(1));
  EXPECT_EQ(harness.scheduler.stats().waiting, 1);
  const absl::Status refused = harness.scheduler.Add(WithChoices(3, 5, 5, 9));
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("n is 5; it must be in [1, 4]"));
}

TEST(SchedulerChoices, RefusesMoreThanThePoolCanEverHold) {
  SchedulerConfig config = SmallConfig();
  config.max_model_len = 20;
  config.num_blocks = 2 + 3 * 3;  // 10 tokens: two shared blocks; each choice goes on to 19
  Harness harness(config);
  EXPECT_TRUE(harness.scheduler.Add(WithChoices(1, 10, 3, 10)).ok());
  EXPECT_THAT(std::string(harness.scheduler.Add(WithChoices(2, 10, 4, 10)).message()),
              HasSubstr("n is 4: they need 14 KV blocks of 4 tokens; the pool has 11"));
}

// Answers as a model would: by sequence and position, so that a token that is sampled again is the
// same. Returns the tokens of each choice.
std::map<int32_t, std::vector<TokenId>> RunAll(Harness& harness, RequestId watched) {
  std::map<int32_t, std::vector<TokenId>> received;
  while (!harness.scheduler.idle()) {
    const std::optional<StepPlan> plan = harness.Schedule();
    std::map<SequenceId, TokenId> tokens;
    const StepPlan& oldest = harness.in_flight.front();
    for (const SeqSlice& slice : oldest.slices) {
      const int32_t position = slice.context_length + slice.num_tokens;
      tokens[slice.sequence] = static_cast<TokenId>((slice.sequence * 7 + position) % 90);
      for (const Fork& fork : slice.forks) {
        tokens[fork.child] = static_cast<TokenId>((fork.child * 7 + position) % 90);
      }
    }
    for (const TokenEvent& event : harness.Commit(0, tokens)) {
      if (event.request == watched) received[event.choice_index].push_back(*event.token);
    }
  }
  return received;
}

TEST(SchedulerChoices, APreemptedGroupIsRecomputedWithItsPromptOnce) {
  SchedulerConfig config = SmallConfig();
  config.max_model_len = 24;
  config.num_blocks = 64;
  Harness calm(config);
  calm.Add(MakeRequest(1, 9, 15));
  calm.Add(WithChoices(2, 9, 3, 12));
  const auto expected = RunAll(calm, 2);
  for (const bool caches : {false, true}) {
    config.num_blocks = 12;
    config.prefix_cache = caches;
    Harness harness(config);
    Request senior = MakeRequest(1, 9, 15);
    senior.prompt[0] = 80;
    harness.Add(senior);
    harness.Add(WithChoices(2, 9, 3, 12));
    EXPECT_EQ(RunAll(harness, 2), expected);
    EXPECT_GT(harness.scheduler.stats().preemptions_pool, 0u);
    EXPECT_EQ(harness.scheduler.stats().active_blocks, 0);
    if (!caches) {
      EXPECT_EQ(harness.scheduler.stats().recovered_tokens, 0u);
    }
  }
}

TEST(SchedulerChoices, ChoicesOfARecomputedGroupShareThePromptsFullBlocks) {
  SchedulerConfig config = SmallConfig();
  Harness harness(config);
  harness.Add(WithChoices(1, 9, 3, 9));
  harness.Step(21);
  harness.Step(22);
  harness.scheduler.ResetWorkers();
  harness.scheduler.CheckInvariants();
  const StepPlan first = harness.Step(23);
  EXPECT_THAT(Harness::Sequences(first), ElementsAre(1));
  EXPECT_THAT(first.slices[0].forks, IsEmpty());
  const StepPlan second = harness.Step(24);
  ASSERT_THAT(Harness::Sequences(second), ElementsAre(1, 2, 3));
  for (size_t i = 1; i < 3; ++i) {
    EXPECT_EQ(second.slices[i].context_length, 8);
    EXPECT_THAT(second.slices[i].tokens, ElementsAre(8, 21, 22));
    EXPECT_EQ(second.slices[i].start->choice_index, i);
    EXPECT_EQ(second.slices[i].new_blocks[1], first.slices[0].new_blocks[1]);
  }
}

TEST(SchedulerChoices, AForkThatWasLostWithTheWorkersIsMadeAgain) {
  Harness harness(SmallConfig());
  harness.Add(WithChoices(1, 5, 3, 9));
  harness.Schedule();
  harness.scheduler.ResetWorkers();
  harness.in_flight.clear();
  harness.scheduler.CheckInvariants();
  EXPECT_THAT(harness.Schedule()->slices.at(0).forks, ElementsAre(Fork{2, 1}, Fork{3, 2}));
  EXPECT_THAT(harness.Commit(), SizeIs(3));
}

TEST(SchedulerChoices, TheOthersGoOnWhenTheirSourceHasEnded) {
  SchedulerConfig config = SmallConfig();
  config.max_num_batched_tokens = 9;
  Harness harness(config);
  harness.Add(WithChoices(1, 8, 2, 9));
  harness.Step(21);
  harness.scheduler.ResetWorkers();
  EXPECT_THAT(Harness::Sequences(harness.Step(kTestEos)), ElementsAre(1));  // and it ends
  const StepPlan plan = harness.Step(22);
  EXPECT_THAT(Harness::Sequences(plan), ElementsAre(2));
  EXPECT_EQ(plan.slices[0].context_length, 8);
  EXPECT_THAT(plan.slices[0].tokens, ElementsAre(21));
}

TEST(SchedulerChoices, AnImmuneGroupPutsAsideWhatItsChoicesCanNeed) {  // life.3
  SchedulerConfig config = SmallConfig();
  config.max_model_len = 16;
  config.max_preemptions = 0;
  config.num_blocks = 12;
  Harness harness(config);
  harness.Add(WithChoices(1, 6, 3, 10));  // 1 + 3 x 3 blocks
  harness.Add(MakeRequest(2, 6, 10));     // 4
  EXPECT_THAT(Harness::Sequences(harness.Step()), ElementsAre(1));
  EXPECT_EQ(harness.scheduler.stats().active_blocks, 10);
  while (!harness.scheduler.idle()) harness.Step();
  EXPECT_EQ(harness.scheduler.stats().preemptions_pool, 0u);
  EXPECT_EQ(harness.scheduler.stats().free_blocks, 12);
}

TEST(SchedulerChoices, GeneratedBlocksOfEveryChoiceAreFound) {
  SchedulerConfig config = SmallConfig();
  config.prefix_cache = true;
  Harness harness(config);
  harness.Add(WithChoices(1, 6, 2, 8));
  harness.Schedule();
  harness.Commit(0, {{1, 31}, {2, 41}});
  while (!harness.scheduler.idle()) {
    harness.Schedule();
    harness.Commit(0, {{1, 31}, {2, 41}});
  }
  Request next = MakeRequest(2, 6, 1);
  next.prompt.insert(next.prompt.end(), 7, 41);  // what choice 1 said
  harness.Add(next);
  EXPECT_EQ(harness.Schedule()->slices[0].context_length, 12);
}

}  // namespace
}  // namespace octavo
