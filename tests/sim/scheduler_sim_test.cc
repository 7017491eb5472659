// OCTAVO_SIM_SEED=N runs that seed alone; OCTAVO_SIM_SEEDS=N changes how many run.
#include "tests/sim/scheduler_sim.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "gtest/gtest.h"

namespace octavo {
namespace {

uint64_t current_seed = 0;

// A broken invariant ends the process: say which seed did it.
void PrintSeed(int) {
  std::fprintf(stderr, "OCTAVO_SIM_SEED=%llu\n", static_cast<unsigned long long>(current_seed));
}

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

class SchedulerSimTest : public testing::Test {
 protected:
  SchedulerSimTest() {
    std::signal(SIGABRT, PrintSeed);
    if (std::getenv("OCTAVO_SIM_SEED") != nullptr) {
      first_ = FromEnvironment("OCTAVO_SIM_SEED", 0);
      count_ = 1;
    }
  }

  uint64_t first_ = 0;
  uint64_t count_ = FromEnvironment("OCTAVO_SIM_SEEDS", 400);
};

// kv.1, kv.2, kv.4, step.1 to step.3, step.6, life.1 to life.3, det.1, det.2.
TEST_F(SchedulerSimTest, EveryScheduleGivesTheTokensOfDirectEvaluation) {
  uint64_t preempted_seeds = 0;
  uint64_t reset_seeds = 0;
  uint64_t aborted_seeds = 0;
  for (current_seed = first_; current_seed < first_ + count_; ++current_seed) {
    const SimScenario scenario = SimScenario::FromSeed(current_seed);
    SCOPED_TRACE(testing::Message()
                 << "OCTAVO_SIM_SEED=" << current_seed << " " << scenario.ToString());
    SimOutcome outcome;
    const absl::Status first = SchedulerSim(scenario, current_seed).Run(&outcome);
    ASSERT_TRUE(first.ok()) << first;
    SimOutcome again;
    const absl::Status second = SchedulerSim(scenario, current_seed).Run(&again);
    ASSERT_TRUE(second.ok()) << second;
    ASSERT_TRUE(outcome.plans == again.plans) << "det.1";
    preempted_seeds += outcome.stats.preemptions_pool > 0 ? 1 : 0;
    reset_seeds += outcome.stats.preemptions_reset > 0 ? 1 : 0;
    aborted_seeds += outcome.stats.finished_abort > 0 ? 1 : 0;
  }
  if (count_ < 100) return;
  // The scenarios must go where the trouble is.
  EXPECT_GT(preempted_seeds, count_ / 10);
  EXPECT_GT(reset_seeds, count_ / 10);
  EXPECT_GT(aborted_seeds, count_ / 10);
  std::printf(
      "%llu seeds: %llu with preemptions, %llu with resets, %llu with aborts\n",
      static_cast<unsigned long long>(count_), static_cast<unsigned long long>(preempted_seeds),
      static_cast<unsigned long long>(reset_seeds), static_cast<unsigned long long>(aborted_seeds));
}

}  // namespace
}  // namespace octavo
