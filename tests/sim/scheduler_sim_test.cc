// OCTAVO_SIM_SEED=N runs that seed alone; OCTAVO_SIM_SEEDS=N changes how many run, and
// OCTAVO_SIM_FIRST=N where they begin. A seed that fails is printed with the few commands that its
// failure needs.
#include "tests/sim/scheduler_sim.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/sim/shrink.h"

namespace octavo {
namespace {

constexpr int kMaxTrials = 3000;

// The life that is being lived, for what has to be said when an invariant ends the process.
struct Life {
  uint64_t seed = 0;
  SimScenario scenario;
  SimOutcome outcome;
};
Life* current = nullptr;

std::string Report(const Life& life) {
  const std::vector<SimCommand> shrunk = Shrink(
      life.outcome.commands,
      [&life](std::span<const SimCommand> some) { return FailsInAChild(life.scenario, some); },
      kMaxTrials);
  return "OCTAVO_SIM_SEED=" + std::to_string(life.seed) + " " + life.scenario.ToString() + "\n" +
         ToString(shrunk) + "\n";
}

// Comes from abort() in ordinary code, so that all of the program can still be used.
void ReportCurrent(int) {
  std::signal(SIGABRT, SIG_DFL);
  if (current != nullptr) std::fputs(Report(*current).c_str(), stderr);
}

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// How many seeds came where the trouble is: over all shards of a process, since some places are
// rare enough for a few hundred seeds to miss by chance.
class Coverage {
 public:
  void Count(const SimOutcome& outcome) {
    ++lives_;
    for (Place& place : places_) place.seeds += outcome.stats.*place.counter > 0 ? 1 : 0;
    with_beams_ += outcome.beam_searches > 0 ? 1 : 0;
    with_preempted_beams_ += outcome.beam_preemptions > 0 ? 1 : 0;
  }
  void Check() const {
    if (lives_ < 100) return;
    EXPECT_GT(with_beams_, lives_ / 8);
    EXPECT_GT(with_preempted_beams_, lives_ / 60);
    for (const Place& place : places_) {
      EXPECT_GT(place.seeds, lives_ / place.one_in) << place.name;
      std::printf("%llu of %llu seeds with %s\n", static_cast<unsigned long long>(place.seeds),
                  static_cast<unsigned long long>(lives_), place.name);
    }
  }

 private:
  struct Place {
    const char* name;
    uint64_t SchedulerStats::*counter;
    uint64_t one_in = 20;  // seeds at least
    uint64_t seeds = 0;
  };
  std::vector<Place> places_ = {
      {"preemptions", &SchedulerStats::preemptions_pool},
      {"resets", &SchedulerStats::preemptions_reset},
      {"aborts", &SchedulerStats::finished_abort},
      {"prefix hits", &SchedulerStats::prefix_hit_tokens},
      {"evictions", &SchedulerStats::prefix_evictions},
      {"waits for a producer", &SchedulerStats::prefix_waits},
      {"copies", &SchedulerStats::copies_on_write},
      {"recovered tokens", &SchedulerStats::recovered_tokens},
      {"swap-outs", &SchedulerStats::swapped_out_blocks},
      {"swap-ins", &SchedulerStats::swapped_in_blocks},
      {"flushes", &SchedulerStats::prefix_flushes},
      {"waits for adjacent blocks", &SchedulerStats::adjacency_waits, 50},
  };
  uint64_t lives_ = 0;
  uint64_t with_beams_ = 0;
  uint64_t with_preempted_beams_ = 0;
};

constexpr int kShards = 4;  // ctest runs them beside each other

class SchedulerSimTest : public testing::TestWithParam<int> {
 protected:
  SchedulerSimTest() {
    std::signal(SIGABRT, ReportCurrent);
    const uint64_t first = FromEnvironment("OCTAVO_SIM_FIRST", 0);
    const uint64_t shard = static_cast<uint64_t>(GetParam());
    const uint64_t seeds = FromEnvironment("OCTAVO_SIM_SEEDS", 2000);
    first_ = first + seeds * shard / kShards;
    count_ = first + seeds * (shard + 1) / kShards - first_;
    if (std::getenv("OCTAVO_SIM_SEED") != nullptr) {
      first_ = FromEnvironment("OCTAVO_SIM_SEED", 0);
      count_ = shard == 0 ? 1 : 0;
    }
  }
  ~SchedulerSimTest() override { current = nullptr; }
  static void TearDownTestSuite() { coverage.Check(); }

  static Coverage coverage;
  uint64_t first_ = 0;
  uint64_t count_ = 0;
};

Coverage SchedulerSimTest::coverage;

// kv.1 to kv.6, step.1 to step.4, step.6, life.1 to life.3, det.1, det.2.
TEST_P(SchedulerSimTest, EveryScheduleGivesTheTokensOfDirectEvaluation) {
  for (uint64_t seed = first_; seed < first_ + count_; ++seed) {
    Life life{.seed = seed, .scenario = SimScenario::FromSeed(seed)};
    current = &life;
    const absl::Status first = SchedulerSim(life.scenario, seed).Run(&life.outcome);
    ASSERT_TRUE(first.ok()) << first << "\n" << Report(life);
    SimOutcome again;
    const absl::Status second = SchedulerSim(life.scenario, seed).Run(&again);
    ASSERT_TRUE(second.ok()) << second << " the second time, OCTAVO_SIM_SEED=" << seed;
    ASSERT_TRUE(life.outcome.plans == again.plans) << "det.1, OCTAVO_SIM_SEED=" << seed;
    coverage.Count(life.outcome);
  }
}

INSTANTIATE_TEST_SUITE_P(Shards, SchedulerSimTest, testing::Range(0, kShards));

}  // namespace
}  // namespace octavo
