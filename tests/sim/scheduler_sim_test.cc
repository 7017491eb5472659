// OCTAVO_SIM_SEED=N runs that seed alone; OCTAVO_SIM_SEEDS=N changes how many run.
#include "tests/sim/scheduler_sim.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

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

// kv.1 to kv.6, step.1 to step.4, step.6, life.1 to life.3, det.1, det.2.
TEST_F(SchedulerSimTest, EveryScheduleGivesTheTokensOfDirectEvaluation) {
  // How many seeds came where the trouble is.
  const std::vector<std::pair<const char*, uint64_t SchedulerStats::*>> places = {
      {"preemptions", &SchedulerStats::preemptions_pool},
      {"resets", &SchedulerStats::preemptions_reset},
      {"aborts", &SchedulerStats::finished_abort},
      {"prefix hits", &SchedulerStats::prefix_hit_tokens},
      {"evictions", &SchedulerStats::prefix_evictions},
      {"waits for a producer", &SchedulerStats::prefix_waits},
      {"copies", &SchedulerStats::copies_on_write},
      {"recovered tokens", &SchedulerStats::recovered_tokens},
      {"flushes", &SchedulerStats::prefix_flushes},
  };
  std::vector<uint64_t> seeds(places.size(), 0);
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
    for (size_t i = 0; i < places.size(); ++i) {
      seeds[i] += outcome.stats.*places[i].second > 0 ? 1 : 0;
    }
  }
  if (count_ < 100) return;
  for (size_t i = 0; i < places.size(); ++i) {
    EXPECT_GT(seeds[i], count_ / 10) << places[i].first;
    std::printf("%llu of %llu seeds with %s\n", static_cast<unsigned long long>(seeds[i]),
                static_cast<unsigned long long>(count_), places[i].first);
  }
}

}  // namespace
}  // namespace octavo
