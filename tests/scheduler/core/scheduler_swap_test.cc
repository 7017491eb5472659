// What becomes of a victim's blocks: host copies, blocks that nobody took, or nothing.
#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/core/scheduler.h"
#include "tests/scheduler/core/scheduler_harness.h"

namespace octavo {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Blocks of 4 tokens; two requests of 7 prompt tokens take 2 each.
SchedulerConfig SwapConfig(PreemptionMode mode, PreemptionGranularity granularity) {
  SchedulerConfig config = SmallConfig();
  config.max_model_len = 16;
  config.num_blocks = 4;
  config.num_swap_blocks = 4;
  config.block_bytes = 100;
  config.preemption_mode = mode;
  config.preemption_granularity = granularity;
  config.preemption_resume_share = 0;
  return config;
}

// Runs 1 and 2 until 1 needs a third block: 2 gives way in the step that is returned.
std::optional<StepPlan> Preempt(Harness* harness, int32_t senior_tokens = 9) {
  harness->Add(MakeRequest(1, 7, senior_tokens));
  harness->Add(MakeRequest(2, 7, 9));
  harness->Step(21);
  harness->Step(22);
  return harness->Schedule();
}

StepPlan UntilTwoReturns(Harness* harness) {
  StepPlan plan = harness->Step();
  while (plan.slices.empty() || plan.slices.back().sequence != 2) plan = harness->Step();
  return plan;
}

TEST(SchedulerSwap, AVictimReturnsWithItsBlocks) {
  Harness harness(SwapConfig(PreemptionMode::kSwap, PreemptionGranularity::kRequest));
  const std::optional<StepPlan> out = Preempt(&harness);
  // The blocks come back when the copies are made: 1 sits this step out, and it is still a step.
  ASSERT_TRUE(out.has_value());
  EXPECT_THAT(out->slices, IsEmpty());
  EXPECT_THAT(out->dropped, ElementsAre(2));
  ASSERT_EQ(out->swap_outs.size(), 2u);
  EXPECT_EQ(harness.scheduler.stats().free_blocks, 0);
  const std::vector<PreemptionEvent> events = harness.scheduler.TakePreemptions();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].mode, PreemptionMode::kSwap);
  EXPECT_EQ(events[0].blocks, 2);
  EXPECT_EQ(events[0].tokens_lost, 0);
  EXPECT_EQ(events[0].swap_bytes, 200);
  harness.Commit();
  EXPECT_EQ(harness.scheduler.stats().free_blocks, 2);
  EXPECT_EQ(harness.scheduler.stats().used_swap_blocks, 2);

  const StepPlan back = UntilTwoReturns(&harness);
  const SeqSlice& slice = back.slices.back();
  EXPECT_TRUE(slice.start.has_value());
  EXPECT_EQ(slice.context_length, 8);
  EXPECT_THAT(slice.tokens, ElementsAre(22));
  ASSERT_EQ(back.swap_ins.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(back.swap_ins[i].host, out->swap_outs[i].host);
    EXPECT_EQ(back.swap_ins[i].device, slice.new_blocks[i]);
  }
  const SchedulerStats stats = harness.scheduler.stats();
  EXPECT_EQ(stats.used_swap_blocks, 0);
  EXPECT_EQ(stats.preemptions_pool, 1u);
  EXPECT_EQ(stats.preemptions_swap, 1u);
  EXPECT_EQ(stats.preempted_tokens, 0u);
  EXPECT_EQ(stats.swapped_out_blocks, 2u);
  EXPECT_EQ(stats.swapped_in_blocks, 2u);
  EXPECT_EQ(stats.recovered_tokens, 0u);
}

TEST(SchedulerSwap, BlocksThatNobodyTookNeedNoCopyBack) {
  Harness harness(SwapConfig(PreemptionMode::kSwap, PreemptionGranularity::kBlock));
  // 1 needs a third block only: the last one of 2, which is freed first.
  const std::optional<StepPlan> out = Preempt(&harness, /*senior_tokens=*/3);
  harness.Commit();
  const StepPlan back = UntilTwoReturns(&harness);
  EXPECT_EQ(back.slices.back().context_length, 8);
  EXPECT_EQ(back.slices.back().new_blocks[0], out->swap_outs[0].device);
  ASSERT_EQ(back.swap_ins.size(), 1u);
  EXPECT_EQ(back.swap_ins[0].host, out->swap_outs[1].host);
  EXPECT_EQ(harness.scheduler.stats().used_swap_blocks, 0);
  EXPECT_EQ(harness.scheduler.stats().recovered_tokens, 4u);
}

TEST(SchedulerSwap, ARecomputedVictimLosesOnlyWhatOthersTook) {
  Harness harness(SwapConfig(PreemptionMode::kRecompute, PreemptionGranularity::kBlock));
  const std::optional<StepPlan> taken = Preempt(&harness, /*senior_tokens=*/3);
  EXPECT_THAT(Harness::Sequences(*taken), ElementsAre(1));
  EXPECT_EQ(harness.scheduler.TakePreemptions().at(0).tokens_lost, 8);
  harness.Commit();
  const StepPlan back = UntilTwoReturns(&harness);
  EXPECT_EQ(back.slices.back().context_length, 4);
  EXPECT_THAT(back.slices.back().tokens, ElementsAre(4, 5, 6, 21, 22));
  EXPECT_THAT(back.swap_ins, IsEmpty());
  EXPECT_EQ(harness.scheduler.stats().recovered_tokens, 4u);
}

TEST(SchedulerSwap, HostBlocksAreOfNoUseWithoutWhatCameBeforeThem) {
  SchedulerConfig config = SwapConfig(PreemptionMode::kSwap, PreemptionGranularity::kBlock);
  config.prefix_cache = true;
  config.max_model_len = 24;
  config.num_blocks = 8;
  Harness harness(config);
  const auto add = [&](RequestId id, int32_t prompt, TokenId first, int32_t max_tokens) {
    Request request = MakeRequest(id, prompt, max_tokens);
    for (TokenId& token : request.prompt) token = first++;
    request.prompt.back() = static_cast<TokenId>(id);
    request.priority = id == 4 ? -1 : 0;
    harness.Add(request);
  };
  add(1, 10, 20, 9);
  add(2, 9, 50, 9);
  add(3, 9, 50, 9);  // the first 2 of its 3 blocks are those of 2
  while (harness.scheduler.stats().preemptions_swap == 0) harness.Step();
  const PreemptionEvent event = harness.scheduler.TakePreemptions().at(0);
  EXPECT_EQ(event.request, 3u);
  EXPECT_EQ(event.swap_bytes, 100);  // shared blocks stay with their other holder (swap.1)
  while (!harness.in_flight.empty()) harness.Commit();
  // Their holder ends, and they are lent to somebody who goes first.
  harness.scheduler.Abort(2);
  add(4, 14, 70, 2);
  StepPlan plan = harness.Step();
  EXPECT_EQ(plan.slices.back().sequence, 4u);
  while (plan.slices.empty() || plan.slices.back().sequence != 3) plan = harness.Step();
  EXPECT_EQ(plan.slices.back().context_length, 0);
  EXPECT_THAT(plan.swap_ins, IsEmpty());
  EXPECT_EQ(harness.scheduler.stats().swap_drops, 1u);
  EXPECT_EQ(harness.scheduler.stats().used_swap_blocks, 0);
}

TEST(SchedulerSwap, AFullHostPoolRecomputes) {
  SchedulerConfig config = SwapConfig(PreemptionMode::kSwap, PreemptionGranularity::kBlock);
  config.num_swap_blocks = 1;
  Harness harness(config);
  const std::optional<StepPlan> taken = Preempt(&harness);
  EXPECT_THAT(Harness::Sequences(*taken), ElementsAre(1));
  const PreemptionEvent event = harness.scheduler.TakePreemptions().at(0);
  EXPECT_EQ(event.mode, PreemptionMode::kRecompute);
  EXPECT_TRUE(std::isinf(event.swap_seconds));
  EXPECT_EQ(harness.scheduler.stats().used_swap_blocks, 0);
}

TEST(SchedulerSwap, AutoNamesBothCosts) {
  SchedulerConfig config = SwapConfig(PreemptionMode::kAuto, PreemptionGranularity::kBlock);
  config.initial_prefill_tokens_per_second = 100;
  config.initial_swap_bytes_per_second = 1e6;
  Harness harness(config);
  Preempt(&harness);
  const PreemptionEvent event = harness.scheduler.TakePreemptions().at(0);
  EXPECT_DOUBLE_EQ(event.recompute_seconds, 8 / 100.0);
  EXPECT_DOUBLE_EQ(event.swap_seconds, 2 * 200 / 1e6);
  EXPECT_EQ(event.mode, PreemptionMode::kSwap);
}

// Twenty always wait for a pool that holds two; copies take `block_seconds` for each block.
SchedulerStats Overload(double block_seconds) {
  SchedulerConfig config = SwapConfig(PreemptionMode::kAuto, PreemptionGranularity::kRequest);
  config.num_blocks = 6;
  config.num_swap_blocks = 100;
  config.max_preemptions = 1000;
  Harness harness(config);
  RequestId next = 1;
  for (int step = 0; step < 3000; ++step) {
    while (harness.scheduler.stats().waiting < 20) harness.Add(MakeRequest(next++, 7, 9));
    const std::optional<StepPlan> plan = harness.Schedule();
    OCTAVO_CHECK(plan.has_value());
    StepResult result = Harness::Answer(*plan);
    result.compute_seconds = 1e-3;
    result.swap_out_seconds = block_seconds * static_cast<double>(plan->swap_outs.size());
    result.swap_in_seconds = block_seconds * static_cast<double>(plan->swap_ins.size());
    harness.scheduler.Commit(result);
    harness.in_flight.clear();
  }
  return harness.scheduler.stats();
}

TEST(SchedulerSwap, AutoTakesWhatCostsLess) {
  const SchedulerStats fast = Overload(/*block_seconds=*/1e-6);
  EXPECT_GT(fast.preemptions_pool, 200u);
  EXPECT_EQ(fast.preemptions_swap, fast.preemptions_pool);
  // A slow host is tried once, and again after every 64 victims.
  const SchedulerStats slow = Overload(/*block_seconds=*/10);
  EXPECT_GT(slow.preemptions_pool, 200u);
  EXPECT_EQ(slow.preemptions_swap, 1 + (slow.preemptions_pool - 1) / 65);
}

TEST(SchedulerSwap, AutoMeasuresBothCosts) {  // det.3
  SchedulerConfig config = SwapConfig(PreemptionMode::kAuto, PreemptionGranularity::kBlock);
  Harness harness(config);
  harness.Add(MakeRequest(1, 7, 9));
  harness.Add(MakeRequest(2, 7, 9));
  const std::optional<StepPlan> prefill = harness.Schedule();
  StepResult result = Harness::Answer(*prefill);
  result.compute_seconds = 0.014;  // 14 prompt tokens, no decodes seen yet
  harness.scheduler.Commit(result);
  harness.in_flight.clear();
  EXPECT_DOUBLE_EQ(harness.scheduler.stats().prefill_tokens_per_second, 1000);
  harness.Step();
  const std::optional<StepPlan> out = harness.Schedule();
  ASSERT_EQ(out->swap_outs.size(), 2u);
  result = Harness::Answer(*out);
  result.swap_out_seconds = 0.1;
  harness.scheduler.Commit(result);
  EXPECT_DOUBLE_EQ(harness.scheduler.stats().swap_out_bytes_per_second, 2000);
}

TEST(SchedulerSwap, AnAbortFreesHostBlocksOnceTheCopiesAreMade) {  // swap.1
  Harness harness(SwapConfig(PreemptionMode::kSwap, PreemptionGranularity::kBlock));
  Preempt(&harness);
  harness.scheduler.Abort(2);
  harness.scheduler.CheckInvariants();
  EXPECT_EQ(harness.scheduler.stats().used_swap_blocks, 2);
  harness.Commit();
  EXPECT_EQ(harness.scheduler.stats().used_swap_blocks, 0);
  while (!harness.scheduler.idle()) harness.Step();
  EXPECT_EQ(harness.scheduler.stats().free_blocks, 4);
}

TEST(SchedulerSwap, AResetForgetsHostBlocksAndRetainedOnes) {
  Harness harness(SwapConfig(PreemptionMode::kSwap, PreemptionGranularity::kBlock));
  Preempt(&harness);
  harness.scheduler.ResetWorkers();
  harness.in_flight.clear();
  harness.scheduler.CheckInvariants();
  EXPECT_EQ(harness.scheduler.stats().used_swap_blocks, 0);
  const StepPlan again = harness.Step();
  for (const SeqSlice& slice : again.slices) EXPECT_EQ(slice.context_length, 0);
  EXPECT_THAT(again.swap_ins, IsEmpty());
}

// Found by the simulation: a table that began before a flush came back with blocks found before it,
// and published them again.
TEST(SchedulerSwap, ATableThatBeganBeforeAFlushDoesNotReturn) {
  SchedulerConfig config = SwapConfig(PreemptionMode::kSwap, PreemptionGranularity::kBlock);
  config.prefix_cache = true;
  Harness harness(config);
  harness.Add(MakeRequest(1, 7, 9));
  Request other = MakeRequest(2, 7, 9);
  other.prompt[0] = 50;
  harness.Add(other);
  harness.Step(21);
  harness.scheduler.FlushPrefixCache();
  harness.Step(22);
  harness.Schedule();
  EXPECT_EQ(harness.scheduler.TakePreemptions().at(0).mode, PreemptionMode::kRecompute);
  harness.Commit();
  EXPECT_EQ(UntilTwoReturns(&harness).slices.back().context_length, 0);
}

TEST(SchedulerSwap, AVictimReturnsWhenAShareOfWhatItMayNeedFitsToo) {
  for (const double share : {0.0, 1.0}) {
    SchedulerConfig config = SwapConfig(PreemptionMode::kRecompute, PreemptionGranularity::kBlock);
    config.num_blocks = 6;
    config.preemption_resume_share = share;
    Harness harness(config);
    harness.Add(MakeRequest(1, 3, 3));
    harness.Add(MakeRequest(2, 7, 9));
    harness.Add(MakeRequest(3, 7, 9));  // in the last of 5 blocks; one is free
    while (harness.scheduler.stats().preemptions_pool == 0) harness.Step();
    ASSERT_EQ(harness.scheduler.TakePreemptions().at(0).request, 3u);
    // 2 holds three blocks and comes to need four; 3 has two or three to fill and may need four.
    while (harness.scheduler.stats().running < 2 && harness.scheduler.stats().waiting > 0) {
      harness.Step();
    }
    const int64_t held = harness.scheduler.stats().active_blocks;
    EXPECT_LE(held, 6);
    while (!harness.scheduler.idle()) harness.Step();
    // With the whole need it never comes back too early.
    EXPECT_EQ(harness.scheduler.stats().preemptions_pool > 1, share == 0.0);
  }
}

TEST(SchedulerSwap, NobodyStarvesUnderASustainedOverload) {  // life.2, life.3
  for (const PreemptionMode mode :
       {PreemptionMode::kRecompute, PreemptionMode::kSwap, PreemptionMode::kAuto}) {
    SchedulerConfig config = SwapConfig(mode, PreemptionGranularity::kBlock);
    config.num_blocks = 9;
    config.num_swap_blocks = 6;
    config.preemption_resume_share = 0.25;
    Harness harness(config);
    std::map<RequestId, int> arrived;
    RequestId next = 1;
    int longest = 0;
    for (int step = 0; step < 3000; ++step) {
      // Twenty always wait.
      while (harness.scheduler.stats().waiting < 20) {
        Request request = MakeRequest(next, 1 + static_cast<int32_t>(next % 7), 8);
        request.arrival = absl::UnixEpoch() + absl::Seconds(step);
        arrived[next++] = step;
        harness.Add(request);
      }
      const bool scheduled = harness.Schedule().has_value();
      if (harness.in_flight.size() < 2 && scheduled) continue;
      for (const TokenEvent& event : harness.Commit()) {
        if (!event.finish.has_value()) continue;
        longest = std::max(longest, step - arrived.at(event.request));
        arrived.erase(event.request);
      }
    }
    EXPECT_GT(harness.scheduler.stats().preemptions_pool, 100u);
    // Whoever is still there came lately: nobody waits longer than it takes to serve those before.
    EXPECT_LT(longest, 400);
    for (const auto& [id, step] : arrived) EXPECT_GT(step, 3000 - 400) << "request " << id;
  }
}

}  // namespace
}  // namespace octavo
