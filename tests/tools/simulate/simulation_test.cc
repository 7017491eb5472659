#include "tools/simulate/simulation.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace octavo::simulate {
namespace {

using ::testing::HasSubstr;

Trace Alike(int count, int32_t prompt, int32_t output, double gap_seconds) {
  Trace trace{.name = "alike"};
  for (int i = 0; i < count; ++i) {
    trace.requests.push_back(
        {.arrival_seconds = i * gap_seconds, .prompt_tokens = prompt, .output_tokens = output});
  }
  return trace;
}

SimulationSetup SetupOf(const SimulationOptions& options, const Trace& trace) {
  absl::StatusOr<SimulationSetup> setup = MakeSetup(options, trace);
  EXPECT_TRUE(setup.ok()) << setup.status();
  return *std::move(setup);
}

TEST(Simulation, OneRequestTakesTheSumOfItsSteps) {
  const Trace trace = Alike(1, 100, 4, 0);
  const SimulationSetup setup = SetupOf({}, trace);
  const SimulationReport report = Simulation(setup, trace).Run(nullptr);
  const CostModel costs(setup.device, setup.model, setup.geometry, 1);
  const double prefill =
      costs.Cost({.tokens = 100, .samples = 1, .kv_tokens = 100, .attended_pairs = 5050})
          .compute_seconds;
  double decode = 0;
  for (int context = 100; context < 103; ++context) {
    decode += costs
                  .Cost({.tokens = 1,
                         .samples = 1,
                         .kv_tokens = context + 1,
                         .attended_pairs = context + 1.0})
                  .compute_seconds;
  }
  EXPECT_NEAR(report.seconds, prefill + decode, 1e-12);
  EXPECT_NEAR(report.ttft_seconds.mean(), prefill, 1e-12);
  EXPECT_NEAR(report.itl_seconds.mean(), decode / 3, 1e-12);
  EXPECT_NEAR(report.e2e_seconds.mean(), prefill + decode, 1e-12);
  EXPECT_EQ(report.queue_seconds.most(), 0);
  EXPECT_EQ(report.output_tokens, 4);
  EXPECT_EQ(report.stats.steps, 4u);
}

TEST(Simulation, RequestsThatArriveTogetherShareTheSteps) {
  const Trace trace = Alike(32, 64, 20, 0);
  const SimulationSetup setup = SetupOf({}, trace);
  const SimulationReport report = Simulation(setup, trace).Run(nullptr);
  EXPECT_EQ(report.requests_finished, 32);
  EXPECT_EQ(report.output_tokens, 32 * 20);
  EXPECT_EQ(report.prompt_tokens, 32 * 64);
  EXPECT_EQ(report.levels.Most(kRunning), 32);
  EXPECT_EQ(report.stats.steps, 20u);
}

TEST(Simulation, IdleTimePassesBetweenArrivals) {
  const Trace trace = Alike(3, 64, 2, 10);
  const SimulationSetup setup = SetupOf({}, trace);
  const SimulationReport report = Simulation(setup, trace).Run(nullptr);
  EXPECT_GT(report.seconds, 20);
  EXPECT_LT(report.seconds, 20.1);
  EXPECT_LT(report.levels.Mean(kRunning), 0.01);
  EXPECT_EQ(report.levels.Most(kRunning), 1);
  EXPECT_LT(report.ttft_seconds.most(), 0.02);
}

TEST(Simulation, ReportsWhatIsRefused) {
  Trace trace = Alike(4, 100, 10, 0.1);
  trace.requests[1].prompt_tokens = 5000;
  trace.requests[2].output_tokens = 0;
  SimulationOptions options;
  options.max_model_len = 1000;
  const SimulationSetup setup = SetupOf(options, trace);
  const SimulationReport report = Simulation(setup, trace).Run(nullptr);
  EXPECT_EQ(report.requests_finished, 2);
  EXPECT_EQ(report.requests_refused, 2);
  EXPECT_THAT(report.first_refusal, HasSubstr("5010; max_model_len is 1000"));
}

TEST(Simulation, MaxModelLenIsTheLongestRequestOrThePool) {
  const Trace trace = Alike(2, 5000, 24, 0);
  EXPECT_EQ(SetupOf({}, trace).scheduler.max_model_len, 5024);
  SimulationOptions options;
  options.num_blocks = 100;
  const SimulationSetup setup = SetupOf(options, trace);
  EXPECT_EQ(setup.scheduler.max_model_len, 1600);
  EXPECT_EQ(Simulation(setup, trace).Run(nullptr).requests_refused, 2);
}

TEST(Simulation, ASmallPoolPreemptsAndStillFinishesAll) {
  const Trace trace = Alike(50, 100, 200, 0);
  SimulationOptions options;
  options.num_blocks = 60;
  options.scheduler.kv_watermark = 0;
  const SimulationSetup setup = SetupOf(options, trace);
  const SimulationReport report = Simulation(setup, trace).Run(nullptr);
  EXPECT_EQ(report.requests_finished, 50);
  EXPECT_EQ(report.output_tokens, 50 * 200);
  EXPECT_GT(report.stats.preemptions_pool, 0u);
  EXPECT_GT(report.levels.Mean(kActiveBlocks), 40);
  EXPECT_GT(report.levels.Most(kWaiting), 30);
}

// The arrivals outside the scheduler's queue are only held back, never reordered or lost.
TEST(Simulation, ABacklogBeyondTheQueueIsServedInOrder) {
  const Trace trace = Alike(500, 32, 8, 0);
  SimulationOptions options;
  options.scheduler.max_num_seqs = 4;
  const SimulationSetup setup = SetupOf(options, trace);
  const SimulationReport report = Simulation(setup, trace).Run(nullptr);
  EXPECT_EQ(report.requests_finished, 500);
  EXPECT_EQ(report.levels.Most(kRunning), 4);
  // While the first steps run everybody else waits, also those that the scheduler has not seen.
  EXPECT_EQ(report.levels.Most(kWaiting), 496);
}

TEST(Simulation, FindsThePrefixesThatTheTraceShares) {
  Trace trace{.name = "shared"};
  for (int i = 0; i < 10; ++i) {
    trace.requests.push_back({.arrival_seconds = i * 1.0,
                              .prompt_tokens = 1024,
                              .output_tokens = 4,
                              .first_hash_id = static_cast<uint32_t>(2 * i),
                              .num_hash_ids = 2});
    trace.hash_ids.push_back(1);
    trace.hash_ids.push_back(static_cast<uint32_t>(100 + i));
  }
  SimulationSetup setup = SetupOf({}, trace);
  const SimulationReport report = Simulation(setup, trace).Run(nullptr);
  EXPECT_NEAR(report.prefix_hit_rate(), 9 * 512 / (10 * 1024.0), 1e-9);
  setup.scheduler.prefix_cache = false;
  EXPECT_EQ(Simulation(setup, trace).Run(nullptr).prefix_hit_rate(), 0);
}

TEST(Simulation, ChoicesShareTheirPrompt) {
  const Trace trace = Alike(1, 160, 64, 0);
  SimulationOptions options;
  options.choices = 4;
  const SimulationSetup setup = SetupOf(options, trace);
  const SimulationReport report = Simulation(setup, trace).Run(nullptr);
  EXPECT_EQ(report.output_tokens, 4 * 64);
  EXPECT_EQ(report.itl_seconds.count(), 4 * 63);
  EXPECT_EQ(report.levels.Most(kSavedBlocks), 30);  // 3 x the 10 blocks of the prompt
  EXPECT_GT(report.sharing_saved(), 0.5);
}

TEST(Simulation, SwappedBlocksComeBackInsteadOfBeingComputedAgain) {
  const Trace trace = Alike(60, 400, 300, 0);
  SimulationOptions options;
  options.num_blocks = 200;
  options.scheduler.kv_watermark = 0;
  options.preemption_granularity = "request";
  options.scheduler.prefix_cache = false;
  options.preemption_mode = "recompute";
  const SimulationSetup recompute_setup = SetupOf(options, trace);
  const SimulationReport recompute = Simulation(recompute_setup, trace).Run(nullptr);
  options.preemption_mode = "swap";
  const SimulationSetup swap_setup = SetupOf(options, trace);
  const SimulationReport swap = Simulation(swap_setup, trace).Run(nullptr);
  EXPECT_EQ(swap.requests_finished, 60);
  EXPECT_EQ(recompute.stats.preemptions_swap, 0u);
  EXPECT_EQ(swap.stats.preemptions_swap, swap.stats.preemptions_pool);
  EXPECT_GT(swap.stats.swapped_in_blocks, 0u);
  // All but the tokens that steps in flight sampled for victims, which nobody had computed yet.
  EXPECT_LT(swap.stats.prompt_tokens, 60u * 400 + 2 * swap.stats.preemptions_swap);
  EXPECT_GT(recompute.stats.prompt_tokens, 60u * 400 + 100 * recompute.stats.preemptions_pool);
  EXPECT_GT(swap.levels.Most(kSwapBlocks), 10);
  // At 50 GB/s a block of 2 MiB takes 42 us, its 16 tokens 330 us of arithmetic.
  EXPECT_LT(swap.seconds, recompute.seconds);
}

TEST(Simulation, WithoutSwapSpaceEveryVictimIsRecomputed) {
  const Trace trace = Alike(60, 400, 300, 0);
  SimulationOptions options;
  options.num_blocks = 200;
  options.scheduler.kv_watermark = 0;
  options.preemption_mode = "swap";
  options.swap_bytes = 0;
  const SimulationSetup setup = SetupOf(options, trace);
  const SimulationReport report = Simulation(setup, trace).Run(nullptr);
  EXPECT_GT(report.stats.preemptions_pool, 0u);
  EXPECT_EQ(report.stats.preemptions_swap, 0u);
}

// Every request has 160 + 96 tokens and the longest may have 1,024, so of what is held a quarter
// can ever be used by reserve-max, 160 + 128 tokens are held by pow2, and 255 (the last token needs
// no slot) of 256 by oracle.
TEST(Simulation, ReservationsWasteWhatTheyDoNotUse) {
  Trace trace = Alike(200, 160, 96, 0);
  SimulationOptions options;
  options.num_blocks = 256;
  options.max_model_len = 1024;
  const auto run = [&](const char* allocation) {
    options.kv_allocation = allocation;
    const SimulationSetup setup = SetupOf(options, trace);
    return Simulation(setup, trace).Run(nullptr);
  };
  const SimulationReport paged = run("paged");
  const SimulationReport most = run("contiguous-max");
  const SimulationReport pow2 = run("contiguous-pow2");
  const SimulationReport oracle = run("contiguous-oracle");
  for (const SimulationReport* report : {&paged, &most, &pow2, &oracle}) {
    EXPECT_EQ(report->requests_finished, 200);
    const double held = report->levels.Mean(kHeldSlots);
    EXPECT_NEAR(report->levels.Mean(kFilledSlots) + report->levels.Mean(kReservedSlots) +
                    report->levels.Mean(kInternalSlots),
                held, 1e-6 * held);
  }
  EXPECT_EQ(most.levels.Most(kRunning), 4);
  EXPECT_EQ(pow2.levels.Most(kRunning), 14);
  EXPECT_EQ(oracle.levels.Most(kRunning), 16);
  EXPECT_GT(paged.levels.Most(kRunning), 16);
  EXPECT_NEAR(most.levels.Mean(kInternalSlots) / most.levels.Mean(kHeldSlots), 769 / 1024.0, 0.01);
  EXPECT_GT(paged.slots_filled(), 0.95);
  EXPECT_GT(oracle.slots_filled(), pow2.slots_filled());
  EXPECT_GT(pow2.slots_filled(), most.slots_filled());
  EXPECT_LT(paged.seconds, oracle.seconds);
  EXPECT_LT(oracle.seconds, pow2.seconds);
  EXPECT_LT(pow2.seconds, most.seconds);
}

TEST(Simulation, SaysTheSameForTheSameSeed) {
  const Trace trace = Alike(200, 300, 50, 0.01);
  SimulationOptions options;
  options.num_blocks = 400;
  options.request_rate = 100;
  options.scheduler.max_num_batched_tokens = 512;
  const SimulationSetup setup = SetupOf(options, trace);
  const std::string first = ToJson(setup, Simulation(setup, trace).Run(nullptr)).dump();
  EXPECT_EQ(first, ToJson(setup, Simulation(setup, trace).Run(nullptr)).dump());
  options.seed = 2;
  const SimulationSetup other = SetupOf(options, trace);
  EXPECT_NE(first, ToJson(other, Simulation(other, trace).Run(nullptr)).dump());
}

TEST(Simulation, StopsWhenTheCallerSaysSo) {
  const Trace trace = Alike(2000, 32, 100, 0);
  SimulationOptions options;
  options.scheduler.max_num_seqs = 8;
  const SimulationSetup setup = SetupOf(options, trace);
  const SimulationReport report =
      Simulation(setup, trace).Run([](int64_t, int64_t) { return false; });
  EXPECT_TRUE(report.interrupted);
  EXPECT_LT(report.requests_finished, 2000);
}

TEST(MakeSetup, SizesThePoolFromTheDevicesMemory) {
  const Trace trace = Alike(1, 100, 10, 0);
  const SimulationSetup setup = SetupOf({}, trace);
  // 143,771 MiB x 0.9, less 16.06 GB of weights and about 1.1 GB for a step: some 115 GB.
  EXPECT_NEAR(static_cast<double>(setup.geometry.PoolBytes(setup.pool.num_blocks)), 118.3e9, 0.5e9);
  SimulationOptions options;
  options.cards = 2;
  const SimulationSetup two = SetupOf(options, trace);
  EXPECT_EQ(two.geometry.bytes_per_token(), 65'536);
  EXPECT_GT(two.pool.num_blocks, 2 * setup.pool.num_blocks);
}

TEST(MakeSetup, RefusesWhatDoesNotFit) {
  const Trace trace = Alike(1, 100, 10, 0);
  SimulationOptions options;
  options.device_preset = "cpu";
  EXPECT_THAT(MakeSetup(options, trace).status().message(),
              HasSubstr("nothing is left for the cache"));
  options = {};
  options.cards = 3;
  EXPECT_THAT(MakeSetup(options, trace).status().message(),
              HasSubstr("must divide the 8 KV heads"));
  options = {};
  options.num_blocks = 4;
  options.max_model_len = 100;
  EXPECT_THAT(MakeSetup(options, trace).status().message(), HasSubstr("hold at most 64"));
}

}  // namespace
}  // namespace octavo::simulate
