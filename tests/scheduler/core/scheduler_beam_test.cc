// Beam searches: who shares what with whom, and what the client gets.
#include <map>
#include <string>

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

using Top = std::vector<TokenLogprob>;
using Tops = std::map<SequenceId, Top>;

Request Beams(RequestId id, int32_t prompt, int32_t width, int32_t max_tokens) {
  Request request = MakeRequest(id, prompt, max_tokens);
  request.beam = BeamParams{.width = width};
  request.n = width;
  return request;
}

// Two likely tokens after every beam that `tops` does not name, other ones for each.
StepResult AnswerBeams(const StepPlan& plan, const Tops& tops) {
  StepResult result = Harness::Answer(plan);
  for (SampledToken& sample : result.samples) {
    const auto own = tops.find(sample.sequence);
    const auto first = static_cast<TokenId>(sample.sequence * 10 % 90);
    sample.top = own == tops.end() ? Top{{first, -0.5f}, {first + 1, -5}} : own->second;
  }
  return result;
}

class SchedulerBeams : public testing::Test {
 protected:
  explicit SchedulerBeams(const SchedulerConfig& config = SmallConfig()) : harness_(config) {}

  std::vector<TokenEvent> Commit(const Tops& tops = {}) {
    const StepPlan plan = harness_.in_flight.front();
    harness_.in_flight.pop_front();
    std::vector<TokenEvent> events = harness_.scheduler.Commit(AnswerBeams(plan, tops));
    harness_.scheduler.CheckInvariants();
    return events;
  }
  StepPlan Step(const Tops& tops = {}) {
    const StepPlan plan = *harness_.Schedule();
    last_events_ = Commit(tops);
    return plan;
  }
  SchedulerStats stats() const { return harness_.scheduler.stats(); }

  Harness harness_;
  std::vector<TokenEvent> last_events_;
};

TEST_F(SchedulerBeams, ThePromptIsComputedOnceAndItsBlocksAreShared) {
  harness_.Add(Beams(1, 6, 3, 9));
  const StepPlan prompt = Step({{1, {{11, -1}, {12, -2}, {13, -3}, {14, -4}}}});
  ASSERT_THAT(prompt.slices, SizeIs(1));
  EXPECT_EQ(prompt.slices[0].num_tokens, 6);
  EXPECT_EQ(prompt.slices[0].start->sampling.num_logprobs, 6);
  EXPECT_EQ(prompt.slices[0].start->sampling.temperature, 0);
  EXPECT_THAT(last_events_, IsEmpty());
  EXPECT_EQ(stats().active_blocks, 2);

  const StepPlan plan = *harness_.Schedule();
  ASSERT_THAT(Harness::Sequences(plan), ElementsAre(1, 2, 3));
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_THAT(plan.slices[i].tokens, ElementsAre(static_cast<TokenId>(11 + i)));
    EXPECT_FALSE(plan.slices[i].feed_sampled);
    EXPECT_EQ(plan.slices[i].context_length, 6);
  }
  // The partly filled block is copied for all but its last writer (kv.2); those that are new to
  // the workers begin with their whole tables.
  ASSERT_THAT(plan.copies, SizeIs(2));
  EXPECT_THAT(plan.slices[0].replaced, ElementsAre(BlockReplacement{1, plan.copies[0].target}));
  EXPECT_THAT(plan.slices[1].new_blocks, ElementsAre(1, plan.copies[1].target));
  EXPECT_THAT(plan.slices[2].new_blocks, ElementsAre(1, 2));
  EXPECT_EQ(stats().active_blocks, 4);
}

TEST_F(SchedulerBeams, ABeamHasOneStepInFlight) {  // step.6
  harness_.Add(Beams(1, 6, 2, 9));
  EXPECT_TRUE(harness_.Schedule().has_value());
  EXPECT_FALSE(harness_.Schedule().has_value());
  Commit();
  EXPECT_TRUE(harness_.Schedule().has_value());
  EXPECT_FALSE(harness_.Schedule().has_value());
}

TEST_F(SchedulerBeams, AChildThatIsAloneTakesTheTableOver) {
  harness_.Add(Beams(1, 6, 2, 9));
  Step({{1, {{11, -1}, {12, -1}, {13, -9}}}});
  Step();
  const uint64_t copies = stats().copies_on_write;
  const int64_t active = stats().active_blocks;
  const StepPlan plan = Step();  // each beam had one likely token
  EXPECT_THAT(plan.dropped, IsEmpty());
  EXPECT_THAT(plan.copies, IsEmpty());
  ASSERT_THAT(plan.slices, SizeIs(2));
  for (const SeqSlice& slice : plan.slices) {
    EXPECT_FALSE(slice.start.has_value());
    EXPECT_THAT(slice.new_blocks, IsEmpty());
  }
  EXPECT_EQ(stats().copies_on_write, copies);
  EXPECT_EQ(stats().active_blocks, active);
}

TEST_F(SchedulerBeams, ADeadBeamOnlyDropsItsTableAndItsSequenceIsGivenToAnotherChild) {
  harness_.Add(Beams(1, 8, 2, 9));
  Step({{1, {{11, -1}, {12, -1}, {13, -9}}}});
  // Both go on from beam 2: beam 1 dies.
  Step({{1, {{21, -8}, {22, -9}}}, {2, {{31, -1}, {32, -2}}}});
  EXPECT_EQ(stats().active_blocks, 3);  // two of the prompt, one of beam 2
  const StepPlan plan = Step();
  EXPECT_THAT(plan.dropped, ElementsAre(1));
  ASSERT_THAT(Harness::Sequences(plan), ElementsAre(1, 2));
  EXPECT_TRUE(plan.slices[0].start.has_value());
  EXPECT_THAT(plan.slices[0].tokens, ElementsAre(32));
  EXPECT_EQ(plan.slices[0].context_length, 9);
  EXPECT_THAT(plan.slices[1].tokens, ElementsAre(31));
  EXPECT_THAT(plan.copies, SizeIs(1));
  EXPECT_EQ(stats().active_blocks, 4);
}

TEST_F(SchedulerBeams, TheHypothesesComeAtTheEndBestFirst) {
  Request request = Beams(1, 4, 3, 2);
  request.n = 2;
  harness_.Add(request);
  Step({{1, {{11, -1}, {kTestEos, -1.5f}, {12, -2}, {13, -4}}}});
  EXPECT_THAT(last_events_, IsEmpty());
  EXPECT_EQ(stats().generated_tokens, 0u);
  Step({{1, {{21, -0.5f}, {22, -9}}}, {2, {{31, -2}, {32, -9}}}, {3, {{41, -8}}}});
  ASSERT_THAT(last_events_, SizeIs(3));
  const TokenEvent& first = last_events_[0];
  EXPECT_EQ(first.token, 11);
  EXPECT_FALSE(first.finish.has_value());
  EXPECT_EQ(first.logprob, -1);
  const TokenEvent& best = last_events_[1];
  EXPECT_EQ(best.token, 21);
  EXPECT_EQ(best.choice_index, 0);
  EXPECT_EQ(best.finish, FinishReason::kLength);
  EXPECT_DOUBLE_EQ(best.score, -1.5 / 2);
  EXPECT_EQ(best.generated_tokens, 2);
  EXPECT_FALSE(best.request_ended);
  const TokenEvent& second = last_events_[2];
  EXPECT_EQ(second.token, kTestEos);
  EXPECT_EQ(second.choice_index, 1);
  EXPECT_EQ(second.finish, FinishReason::kStop);
  EXPECT_DOUBLE_EQ(second.score, -1.5);
  EXPECT_EQ(second.prompt_tokens, 4);
  EXPECT_TRUE(second.request_ended);
  EXPECT_EQ(stats().generated_tokens, 3u);
  EXPECT_TRUE(harness_.scheduler.idle());
  EXPECT_EQ(stats().free_blocks, 64);
}

TEST_F(SchedulerBeams, FewerHypothesesThanAskedForEndTheOtherChoicesWithoutTokens) {
  harness_.Add(Beams(1, 4, 3, 1));
  Step({{1, {{11, -1}, {12, -2}}}});  // a model that gives the rest no mass at all
  ASSERT_THAT(last_events_, SizeIs(3));
  EXPECT_FALSE(last_events_[2].token.has_value());
  EXPECT_EQ(last_events_[2].finish, FinishReason::kLength);
  EXPECT_TRUE(last_events_[2].request_ended);
}

TEST_F(SchedulerBeams, AfterAResetTheyAreComputedAgainAndShareWhatTheyHaveInCommon) {
  harness_.Add(Beams(1, 6, 2, 12));
  Step({{1, {{11, -1}, {12, -5}}}});
  for (int i = 0; i < 3; ++i) {  // both descend from 11, and differ in their last token
    Step({{1, {{21, -1}, {22, -1.5f}}}, {2, {{31, -9}, {32, -9.5f}}}});
  }
  harness_.Schedule();
  harness_.scheduler.ResetWorkers();
  harness_.in_flight.clear();
  harness_.scheduler.CheckInvariants();
  // 6 + 4 tokens each, nine of them, and so two full blocks, in common.
  const StepPlan first = Step();
  ASSERT_THAT(Harness::Sequences(first), ElementsAre(1));
  EXPECT_EQ(first.slices[0].num_tokens, 10);
  EXPECT_EQ(stats().active_blocks, 4);
  EXPECT_THAT(last_events_, IsEmpty());
  const StepPlan second = Step();
  ASSERT_THAT(Harness::Sequences(second), ElementsAre(2));
  EXPECT_EQ(second.slices[0].context_length, 8);
  EXPECT_EQ(second.slices[0].num_tokens, 2);
  EXPECT_THAT(Harness::Sequences(Step()), ElementsAre(1, 2));
}

TEST(SchedulerBeamsPrefix, WhatAChildSaysIsFoundByTheNextTurn) {
  SchedulerConfig config = SmallConfig();
  config.prefix_cache = true;
  Harness harness(config);
  harness.Add(Beams(1, 6, 2, 8));
  std::vector<TokenEvent> events;
  while (!harness.scheduler.idle()) {
    const StepPlan plan = *harness.Schedule();
    harness.in_flight.pop_front();
    events = harness.scheduler.Commit(AnswerBeams(plan, {}));
  }
  Request next = MakeRequest(2, 6, 1);
  for (const TokenEvent& event : events) {
    if (event.choice_index == 1) next.prompt.push_back(*event.token);  // not of the first sequence
  }
  ASSERT_THAT(next.prompt, SizeIs(14));
  harness.Add(next);
  EXPECT_EQ(harness.Schedule()->slices[0].context_length, 12);
}

TEST_F(SchedulerBeams, AnAbortEndsEveryHypothesis) {
  harness_.Add(Beams(1, 5, 3, 9));
  Step();
  harness_.Schedule();
  harness_.scheduler.Abort(1);
  const std::vector<TokenEvent> events = harness_.scheduler.TakeAbortEvents();
  ASSERT_THAT(events, SizeIs(3));
  for (int32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(events[static_cast<size_t>(i)].choice_index, i);
    EXPECT_EQ(events[static_cast<size_t>(i)].finish, FinishReason::kAbort);
    EXPECT_FALSE(events[static_cast<size_t>(i)].token.has_value());
  }
  EXPECT_TRUE(events[2].request_ended);
  EXPECT_THAT(Commit(), IsEmpty());
  EXPECT_TRUE(harness_.scheduler.idle());
  EXPECT_EQ(stats().free_blocks, 64);
}

TEST_F(SchedulerBeams, CountAgainstTheSequencesOfAStep) {  // step.2
  harness_.Add(Beams(1, 5, 6, 9));
  harness_.Add(Beams(2, 5, 3, 9));
  Step();
  EXPECT_EQ(stats().running, 1);
  EXPECT_EQ(stats().waiting, 1);
}

TEST_F(SchedulerBeams, RefusesWhatCanNeverRun) {
  const auto refusal = [this](const Request& request) {
    const absl::Status status = harness_.scheduler.Add(request);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(refusal(Beams(1, 5, 33, 9)), HasSubstr("beam width is 33; it must be in [1, 32]"));
  EXPECT_THAT(refusal(Beams(1, 5, 9, 9)), HasSubstr("beam width is 9; it must be in [1, 8]"));
  Request more = Beams(1, 5, 3, 9);
  more.n = 4;
  EXPECT_THAT(refusal(more), HasSubstr("n is 4; of a beam search of width 3 it must be in [1, 3]"));
  EXPECT_THAT(refusal(Beams(1, 9, 8, 50)),
              HasSubstr("beam width is 8: they need 106 KV blocks of 4 tokens; the pool has 64"));
}

TEST(SchedulerBeamsConfig, RefusesWhereBlocksAreNotSharedOrLeaveAWindow) {
  SchedulerConfig config = SmallConfig();
  config.kv_allocation = KvAllocation::kContiguousMax;
  EXPECT_THAT(std::string(Scheduler(config).Add(Beams(1, 5, 2, 9)).message()),
              HasSubstr("beam search shares blocks; with kv_allocation"));
  config = SmallConfig();
  config.group_windows = {0, 8};
  EXPECT_THAT(std::string(Scheduler(config).Add(Beams(1, 5, 2, 9)).message()),
              HasSubstr("a window of 8 tokens"));
}

TEST_F(SchedulerBeams, RefusesAnswersThatNoWorkerShouldGive) {
  harness_.Add(Beams(1, 4, 2, 9));
  const StepPlan plan = *harness_.Schedule();
  const auto refusal = [&](const Top& top) {
    return std::string(harness_.scheduler.CheckResult(AnswerBeams(plan, {{1, top}})).message());
  };
  EXPECT_THAT(refusal({}), HasSubstr("got 0 log-probabilities; expected 1 to 4"));
  EXPECT_THAT(refusal({{1, -1}, {2, -1}, {3, -1}, {4, -1}, {5, -1}}), HasSubstr("got 5"));
  EXPECT_THAT(refusal({{100, -1}}), HasSubstr("token 100; ids are in [0, 100)"));
  EXPECT_THAT(refusal({{1, -2}, {2, -1}}), HasSubstr("log-probability 1 is -1"));
  EXPECT_THAT(refusal({{1, -1.0f / 0.0f}}), HasSubstr("is -inf"));
  EXPECT_THAT(refusal({{1, -1}, {2, -1}, {1, -3}}), HasSubstr("token 1 is there twice"));
  EXPECT_EQ(refusal({{1, -1}, {2, -1}}), "");
}

SchedulerConfig Tight() {
  SchedulerConfig config = SmallConfig();
  config.max_model_len = 16;
  config.num_blocks = 10;
  config.max_preemptions = 0;
  return config;
}

class ImmuneBeams : public SchedulerBeams {
 protected:
  ImmuneBeams() : SchedulerBeams(Tight()) {}
};

TEST_F(ImmuneBeams, KeepTheBlocksOfTheirDeadForThoseToCome) {  // life.3
  harness_.Add(Beams(1, 6, 3, 10));                            // 1 + 3 x 3 blocks
  harness_.Add(MakeRequest(2, 6, 10));                         // wants 4
  Step({{1, {{11, -1}, {12, -2}, {13, -3}}}});
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(stats().active_blocks, 10);
    // All descend from one beam, another one each time.
    Tops tops;
    for (SequenceId beam = 1; beam <= 3; ++beam) {
      const float here = beam == static_cast<SequenceId>(i % 3 + 1) ? 0 : -20;
      tops[beam] = {{21, here - 1}, {22, here - 2}, {23, here - 3}};
    }
    Step(tops);
    EXPECT_EQ(stats().running, 1);
  }
  Step();
  EXPECT_THAT(last_events_, SizeIs(30));
  EXPECT_EQ(stats().preemptions_pool, 0u);
}

}  // namespace
}  // namespace octavo
