// Log-probabilities of prompts: every token once, however the prompt is computed.
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

Request Scored(RequestId id, int32_t prompt_tokens, int32_t max_tokens = 2) {
  Request request = MakeRequest(id, prompt_tokens, max_tokens);
  request.prompt_logprobs = 0;
  return request;
}

// Appends the tokens whose scores the events bring.
void Gather(const std::vector<TokenEvent>& events, std::vector<TokenId>* tokens) {
  for (const TokenEvent& event : events)
    for (const ScoredToken& scored : event.prompt_logprobs) {
      EXPECT_EQ(scored.logprob, -static_cast<float>(scored.token));
      tokens->push_back(scored.token);
    }
}

// Steps, two in flight, until all have ended.
std::vector<TokenId> Finish(Harness& harness) {
  std::vector<TokenId> tokens;
  while (!harness.scheduler.idle()) {
    while (harness.Schedule().has_value()) {
    }
    Gather(harness.Commit(), &tokens);
  }
  return tokens;
}

SchedulerConfig CachingConfig() {
  SchedulerConfig config = SmallConfig();  // blocks of 4 tokens
  config.prefix_cache = true;
  return config;
}

TEST(SchedulerScores, EachChunkScoresTheTokensThatFollowItsRows) {
  SchedulerConfig config = SmallConfig();
  config.max_prefill_chunk = 3;
  Harness harness(config);
  harness.Add(Scored(1, 7));
  const StepPlan first = *harness.Schedule();
  ASSERT_TRUE(first.slices[0].score.has_value());
  EXPECT_THAT(first.slices[0].score->targets, ElementsAre(1, 2, 3));
  const StepPlan second = *harness.Schedule();  // before the first is committed
  EXPECT_THAT(second.slices[0].score->targets, ElementsAre(4, 5, 6));
  std::vector<TokenEvent> events = harness.Commit();
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_FALSE(events[0].token.has_value());
  EXPECT_FALSE(events[0].finish.has_value());
  EXPECT_THAT(events[0].prompt_logprobs, SizeIs(3));
  // The last row has no prompt token after it: it samples.
  const StepPlan third = *harness.Schedule();
  EXPECT_FALSE(third.slices[0].score.has_value());
  EXPECT_TRUE(third.slices[0].sample);
  EXPECT_THAT(Finish(harness), ElementsAre(4, 5, 6));
}

TEST(SchedulerScores, ComeBeforeTheFirstTokenOfTheSameStep) {
  Harness harness(SmallConfig());
  harness.Add(Scored(1, 5, 1));
  harness.Schedule();
  const std::vector<TokenEvent> events = harness.Commit();
  ASSERT_THAT(events, SizeIs(2));
  EXPECT_THAT(events[0].prompt_logprobs, SizeIs(4));
  EXPECT_TRUE(events[1].token.has_value());
  EXPECT_THAT(events[1].prompt_logprobs, IsEmpty());
}

TEST(SchedulerScores, APromptOfOneTokenHasNone) {
  Harness harness(SmallConfig());
  harness.Add(Scored(1, 1));
  EXPECT_THAT(Finish(harness), IsEmpty());
}

TEST(SchedulerScores, SkipPrefixHitsButAreFoundByOthers) {
  Harness harness(CachingConfig());
  harness.Add(MakeRequest(1, 18, 1));
  harness.Step();
  harness.Add(Scored(2, 18, 1));
  const StepPlan scored = harness.Step();
  EXPECT_EQ(scored.slices[0].context_length, 0);
  EXPECT_THAT(scored.slices[0].score->targets, SizeIs(17));
  EXPECT_EQ(harness.scheduler.stats().prefix_query_tokens, 18u);  // of the first request
  harness.scheduler.FlushPrefixCache();
  harness.Add(Scored(3, 18, 1));
  harness.Step();
  harness.Add(MakeRequest(4, 18, 1));
  EXPECT_EQ(harness.Step().slices[0].context_length, 16);
}

TEST(SchedulerScores, DoNotWaitForAProducer) {
  Harness harness(CachingConfig());
  harness.Add(MakeRequest(1, 18, 1));
  harness.Add(Scored(2, 14, 1));
  EXPECT_THAT(Harness::Sequences(*harness.Schedule()), ElementsAre(1, 2));
  EXPECT_EQ(harness.scheduler.stats().prefix_waits, 0u);
}

TEST(SchedulerScores, AResetRepeatsNothingThatWasDelivered) {
  SchedulerConfig config = CachingConfig();
  config.max_prefill_chunk = 4;
  Harness harness(config);
  harness.Add(Scored(1, 15));
  std::vector<TokenId> tokens;
  harness.Schedule();
  harness.Schedule();
  Gather(harness.Commit(), &tokens);
  EXPECT_THAT(tokens, ElementsAre(1, 2, 3, 4));
  harness.scheduler.ResetWorkers();  // the second step is lost
  harness.in_flight.clear();
  const StepPlan again = *harness.Schedule();
  EXPECT_EQ(again.slices[0].context_length, 0);
  EXPECT_FALSE(again.slices[0].score.has_value());
  for (const TokenId token : Finish(harness)) tokens.push_back(token);
  EXPECT_THAT(tokens, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14));
}

TEST(SchedulerScores, ResultsThatBringOthersAreRefused) {
  Harness harness(SmallConfig());
  harness.Add(Scored(1, 4));
  const StepPlan plan = *harness.Schedule();
  const auto refusal = [&](auto change) {
    StepResult result = Harness::Answer(plan);
    change(result);
    return std::string(harness.scheduler.CheckResult(result).message());
  };
  EXPECT_EQ(refusal([](StepResult&) {}), "");
  EXPECT_THAT(refusal([](StepResult& r) { r.scores.clear(); }), HasSubstr("asked for more"));
  EXPECT_THAT(refusal([](StepResult& r) { r.scores.push_back(r.scores[0]); }),
              HasSubstr("scores of 2 slices; expected 1"));
  EXPECT_THAT(refusal([](StepResult& r) { r.scores[0].sequence = 9; }),
              HasSubstr("scores of sequence 9; expected those of 1"));
  EXPECT_THAT(refusal([](StepResult& r) { r.scores[0].tokens.pop_back(); }),
              HasSubstr("has 2 scores; expected 3"));
  EXPECT_THAT(refusal([](StepResult& r) { r.scores[0].tokens[1].token = 50; }),
              HasSubstr("position 2: the score is of token 50"));
  EXPECT_THAT(refusal([](StepResult& r) {
                r.scores[0].tokens[0].top = {{1, 0}};
              }),
              HasSubstr("with 1 others; expected token 1 with at most 0"));
}

TEST(SchedulerScores, RefusesMoreAlternativesThanAStepCarries) {
  Harness harness(SmallConfig());
  Request request = Scored(1, 4);
  request.prompt_logprobs = 21;
  EXPECT_THAT(std::string(harness.scheduler.Add(request).message()),
              HasSubstr("prompt_logprobs is 21; it must be in [0, 20]"));
}

}  // namespace
}  // namespace octavo
