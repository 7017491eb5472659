// Prefixes that are found: after their owner ended, while it runs, and while it computes them.
#include <numeric>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/core/scheduler.h"
#include "tests/scheduler/core/scheduler_harness.h"

namespace octavo {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

SchedulerConfig CachingConfig() {
  SchedulerConfig config = SmallConfig();  // blocks of 4 tokens
  config.prefix_cache = true;
  config.max_num_seqs = 16;
  config.max_num_batched_tokens = 64;
  return config;
}

std::vector<TokenId> Count(TokenId first, int32_t count) {
  std::vector<TokenId> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

Request Asking(RequestId id, std::vector<TokenId> prompt, int32_t max_tokens = 2) {
  Request request = MakeRequest(id, 1, max_tokens);
  request.prompt = std::move(prompt);
  return request;
}

// A prompt that begins with 16 common tokens.
Request WithCommon(RequestId id, TokenId own, int32_t max_tokens = 2) {
  std::vector<TokenId> prompt = Count(0, 16);
  prompt.insert(prompt.end(), {own, own});
  return Asking(id, std::move(prompt), max_tokens);
}

// Runs alone to its end; returns its last event.
TokenEvent RunToEnd(Harness& harness, Request request) {
  harness.Add(std::move(request));
  TokenEvent last;
  while (!harness.scheduler.idle()) {
    harness.Schedule();
    for (const TokenEvent& event : harness.Commit()) last = event;
  }
  return last;
}

TEST(SchedulerPrefix, FindsBlocksOfARequestThatEnded) {  // kv.5
  Harness harness(CachingConfig());
  EXPECT_EQ(RunToEnd(harness, WithCommon(1, 70)).cached_tokens, 0);
  EXPECT_EQ(harness.scheduler.stats().active_blocks, 0);
  EXPECT_EQ(harness.scheduler.stats().cached_blocks, 4);
  EXPECT_EQ(harness.scheduler.stats().free_blocks, 60);
  harness.Add(WithCommon(2, 80));
  const StepPlan plan = *harness.Schedule();
  EXPECT_EQ(plan.slices[0].context_length, 16);
  EXPECT_THAT(plan.slices[0].tokens, ElementsAre(80, 80));
  EXPECT_THAT(plan.slices[0].new_blocks, ElementsAre(1, 2, 3, 4, 5));
  harness.Commit();
  harness.Schedule();
  EXPECT_EQ(harness.Commit().at(0).cached_tokens, 16);
  const SchedulerStats stats = harness.scheduler.stats();
  EXPECT_EQ(stats.prefix_query_tokens, 36u);
  EXPECT_EQ(stats.prefix_hit_tokens, 16u);
  EXPECT_EQ(stats.prompt_tokens, 20u);
}

// Each left a partly filled block at the end of the free list, so the next one took a cached block
// from its front, although there was one that nobody could want.
TEST(SchedulerPrefix, ShortRequestsDoNotPushOutTheCache) {  // kv.5
  SchedulerConfig config = CachingConfig();
  config.num_blocks = 16;
  config.max_model_len = 40;
  Harness harness(config);
  RunToEnd(harness, WithCommon(1, 70));
  for (RequestId id = 2; id < 60; ++id) RunToEnd(harness, Asking(id, {30, 31}));
  EXPECT_EQ(harness.scheduler.stats().prefix_evictions, 0u);
  EXPECT_EQ(RunToEnd(harness, WithCommon(60, 80)).cached_tokens, 16);
}

TEST(SchedulerPrefix, FindsBlocksOfARequestThatRuns) {
  Harness harness(CachingConfig());
  harness.Add(WithCommon(1, 70, 20));
  harness.Step();
  harness.Add(WithCommon(2, 80, 20));
  const StepPlan plan = harness.Step();
  ASSERT_THAT(plan.slices, SizeIs(2));
  EXPECT_EQ(plan.slices[1].context_length, 16);
  EXPECT_EQ(harness.scheduler.stats().saved_blocks, 4);
  EXPECT_EQ(harness.scheduler.stats().shared_blocks, 4);
  EXPECT_EQ(harness.scheduler.stats().saved_blocks_total, 4u);
}

TEST(SchedulerPrefix, NothingOfAnUncommittedStepIsFound) {  // kv.3
  SchedulerConfig config = CachingConfig();
  Harness harness(config);
  harness.Add(WithCommon(1, 70, 20));
  harness.Schedule();
  harness.Add(WithCommon(2, 80, 20));
  // It waits for the producer: its blocks are in flight.
  EXPECT_THAT(Harness::Sequences(*harness.Schedule()), ElementsAre(1));
  EXPECT_EQ(harness.scheduler.stats().prefix_waits, 1u);
  harness.Commit();
  const StepPlan plan = *harness.Schedule();
  ASSERT_THAT(Harness::Sequences(plan), ElementsAre(1, 2));
  EXPECT_EQ(plan.slices[1].context_length, 16);
}

TEST(SchedulerPrefix, IdenticalPrefixesThatArriveTogetherAreComputedOnce) {
  SchedulerConfig config = CachingConfig();
  config.max_prefill_chunk = 8;
  Harness harness(config);
  for (RequestId id = 1; id <= 10; ++id) harness.Add(WithCommon(id, 60 + id, 1));
  while (!harness.scheduler.idle()) harness.Step();
  const SchedulerStats stats = harness.scheduler.stats();
  EXPECT_EQ(stats.prompt_tokens, 16u + 10 * 2);
  EXPECT_EQ(stats.prefix_hit_tokens, 9u * 16);
  EXPECT_EQ(stats.prefix_waits, 9u * 2);  // for each of the two chunks
}

TEST(SchedulerPrefix, WhoWaitsForAProducerGivesWayToOthers) {
  SchedulerConfig config = CachingConfig();
  config.max_prefill_chunk = 8;
  Harness harness(config);
  harness.Add(WithCommon(1, 61));
  harness.Add(WithCommon(2, 62));
  harness.Add(Asking(3, Count(40, 6)));
  EXPECT_THAT(Harness::Sequences(harness.Step()), ElementsAre(1, 3));
}

TEST(SchedulerPrefix, AnAbortOfTheProducerFreesWhoWaitsAtOnce) {  // life.2
  SchedulerConfig config = CachingConfig();
  config.max_prefill_chunk = 8;
  Harness harness(config);
  harness.Add(WithCommon(1, 61));
  harness.Add(WithCommon(2, 62));
  EXPECT_THAT(Harness::Sequences(*harness.Schedule()), ElementsAre(1));
  harness.scheduler.Abort(1);
  const StepPlan plan = *harness.Schedule();
  EXPECT_THAT(Harness::Sequences(plan), ElementsAre(2));
  EXPECT_EQ(plan.slices[0].context_length, 0);
}

TEST(SchedulerPrefix, AResetOfTheWorkersFreesWhoWaitsAndForgetsTheCache) {
  SchedulerConfig config = CachingConfig();
  config.max_prefill_chunk = 8;
  Harness harness(config);
  harness.Add(WithCommon(1, 61));
  harness.Add(WithCommon(2, 62));
  harness.Step();
  harness.scheduler.ResetWorkers();
  harness.scheduler.CheckInvariants();
  EXPECT_EQ(harness.scheduler.stats().cached_blocks, 0);
  const StepPlan plan = *harness.Schedule();
  EXPECT_THAT(Harness::Sequences(plan), ElementsAre(1));
  EXPECT_EQ(plan.slices[0].context_length, 0);
}

TEST(SchedulerPrefix, DoesNotWaitForAProducerThatIsFurtherBackThanItself) {
  SchedulerConfig config = CachingConfig();
  config.max_prefill_chunk = 4;
  Harness harness(config);
  // 1 computes the common tokens; 2 comes to the same place from a flushed start, far behind.
  harness.Add(Asking(1, Count(0, 40), 20));
  harness.Step();
  harness.scheduler.FlushPrefixCache();
  harness.Add(Asking(2, Count(0, 40), 2));
  const StepPlan plan = harness.Step();
  // After the flush 1 publishes nothing, so 2 computes for itself.
  EXPECT_THAT(Harness::Sequences(plan), ElementsAre(1, 2));
  EXPECT_EQ(plan.slices[1].context_length, 0);
}

TEST(SchedulerPrefix, ATurnComputesOnlyWhatFollowsTheLastSharedFullBlock) {
  Harness harness(CachingConfig());
  std::vector<TokenId> conversation = Count(0, 5);
  uint64_t computed = 0;
  for (RequestId turn = 1; turn <= 5; ++turn) {
    const size_t known = conversation.size();
    const TokenEvent last = RunToEnd(harness, Asking(turn, conversation, 6));
    const uint64_t now = harness.scheduler.stats().prompt_tokens;
    if (turn > 1) {
      // The prompt of 3 new tokens, what is left of the last block, and the last token of the
      // answer, which was sampled and never computed.
      EXPECT_LE(now - computed, 3u + 4 - 1 + 1) << "turn " << turn;
      EXPECT_EQ(now - computed, known - static_cast<size_t>(last.cached_tokens));
    }
    computed = now;
    conversation.insert(conversation.end(), 6, 1);  // the answer of the harness
    for (TokenId token = 0; token < 3; ++token) {
      conversation.push_back(static_cast<TokenId>(20 + 3 * turn) + token);
    }
  }
}

TEST(SchedulerPrefix, SaltsAndAdaptersNeverShare) {  // kv.6
  Harness harness(CachingConfig());
  Request request = WithCommon(1, 70);
  request.cache_salt = "alice";
  RunToEnd(harness, request);
  request.id = 2;
  request.cache_salt = "bob";
  EXPECT_EQ(RunToEnd(harness, request).cached_tokens, 0);
  request.id = 3;
  request.cache_salt = "alice";
  request.adapter_digest = "lora";
  EXPECT_EQ(RunToEnd(harness, request).cached_tokens, 0);
  request.id = 4;
  request.adapter_digest = "";
  EXPECT_EQ(RunToEnd(harness, request).cached_tokens, 16);
}

TEST(SchedulerPrefix, ARequestCanTakeNoPart) {
  Harness harness(CachingConfig());
  Request silent = WithCommon(1, 70);
  silent.prefix_cache = false;
  RunToEnd(harness, silent);
  EXPECT_EQ(harness.scheduler.stats().cached_blocks, 0);
  EXPECT_EQ(RunToEnd(harness, WithCommon(2, 70)).cached_tokens, 0);
  silent.id = 3;
  EXPECT_EQ(RunToEnd(harness, silent).cached_tokens, 0);
  EXPECT_EQ(harness.scheduler.stats().prefix_query_tokens, 18u);
}

TEST(SchedulerPrefix, IsOffForAllByConfiguration) {
  SchedulerConfig config = CachingConfig();
  config.prefix_cache = false;
  Harness harness(config);
  RunToEnd(harness, WithCommon(1, 70));
  EXPECT_EQ(RunToEnd(harness, WithCommon(2, 70)).cached_tokens, 0);
  EXPECT_EQ(harness.scheduler.stats().free_blocks, 64);
}

TEST(SchedulerPrefix, AFlushForgetsWhatIsCachedAndKeepsWhatIsUsed) {
  Harness harness(CachingConfig());
  RunToEnd(harness, WithCommon(1, 70));
  harness.Add(WithCommon(2, 80, 20));
  harness.Step();
  EXPECT_EQ(harness.scheduler.FlushPrefixCache(), 4);
  harness.scheduler.CheckInvariants();
  EXPECT_EQ(harness.scheduler.stats().active_blocks, 5);
  for (int i = 0; i < 8; ++i) harness.Step();  // fills blocks on top of flushed ones
  EXPECT_EQ(harness.scheduler.stats().cached_blocks, 0);
  harness.Add(WithCommon(3, 80, 1));
  EXPECT_EQ(harness.Step().slices.at(1).context_length, 0);
  EXPECT_EQ(harness.scheduler.stats().prefix_flushes, 1u);
}

TEST(SchedulerPrefix, APreemptedRequestFindsItsBlocksAgain) {
  SchedulerConfig config = CachingConfig();
  config.max_model_len = 16;
  config.num_blocks = 5;
  Harness harness(config);
  harness.Add(Asking(1, Count(0, 7), 9));
  harness.Add(Asking(2, Count(40, 7), 9));
  for (int i = 0; i < 7; ++i) harness.Step();
  const std::vector<PreemptionEvent> preemptions = harness.scheduler.TakePreemptions();
  ASSERT_THAT(preemptions, SizeIs(1));
  EXPECT_EQ(preemptions[0].request, 2u);
  StepPlan plan = harness.Step();
  while (Harness::Sequences(plan) != std::vector<SequenceId>{2}) plan = harness.Step();
  EXPECT_TRUE(plan.slices[0].start.has_value());
  EXPECT_EQ(plan.slices[0].context_length, 4);  // its second block was lent to 1
  EXPECT_EQ(harness.scheduler.stats().recovered_tokens, 4u);
}

TEST(SchedulerPrefix, CachedBlocksAreLentLikeFreeOnes) {  // kv.5
  SchedulerConfig config = CachingConfig();
  config.max_model_len = 40;
  config.num_blocks = 10;
  Harness harness(config);
  RunToEnd(harness, Asking(1, Count(0, 30), 2));
  EXPECT_EQ(harness.scheduler.stats().cached_blocks, 7);
  EXPECT_EQ(RunToEnd(harness, Asking(2, Count(50, 36), 2)).finish, FinishReason::kLength);
  EXPECT_EQ(harness.scheduler.stats().prefix_evictions, 7u);
  EXPECT_THAT(harness.scheduler.TakePreemptions(), IsEmpty());
}

TEST(SchedulerPrefix, TheKeyAndTheRevisionDoNotChangePlans) {  // det.1
  std::vector<StepPlan> plans[2];
  for (int run = 0; run < 2; ++run) {
    SchedulerConfig config = CachingConfig();
    config.prefix_cache_key = run == 0 ? "one" : "another";
    Harness harness(config);
    for (RequestId id = 1; id <= 6; ++id) harness.Add(WithCommon(id, 60 + id % 2, 5));
    while (!harness.scheduler.idle()) plans[run].push_back(harness.Step());
  }
  EXPECT_EQ(plans[0], plans[1]);
}

}  // namespace
}  // namespace octavo
