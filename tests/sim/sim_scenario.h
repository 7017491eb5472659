// What a seed decides about one simulated life of a Scheduler.
#ifndef OCTAVO_TESTS_SIM_SIM_SCENARIO_H_
#define OCTAVO_TESTS_SIM_SIM_SCENARIO_H_

#include <cstdint>
#include <random>
#include <string>

#include "common/ids.h"
#include "scheduler/core/scheduler_config.h"

namespace octavo {

inline constexpr int32_t kSimVocabulary = 61;
inline constexpr TokenId kSimEos = 7;  // about one token in 61, so some outputs stop early

// Both bounds inclusive; the same numbers with every standard library.
int64_t Uniform(std::mt19937_64& random, int64_t low, int64_t high);

// Defaults are overwritten by FromSeed.
struct SimScenario {
  SchedulerConfig scheduler;
  int32_t requests = 40;
  int32_t max_prompt = 40;
  int32_t max_output = 30;
  int32_t priorities = 1;
  int32_t steps_in_flight = 2;  // 1 or 2
  int32_t abort_permille = 0;   // per event
  int32_t reset_permille = 0;   // per event
  int32_t arrival_permille = 300;
  int32_t shared_prompts = 0;      // prompts that many requests begin with
  int32_t shared_permille = 0;     // requests that begin with one of them
  int32_t next_turn_permille = 0;  // requests that go on where another one ended
  int32_t salts = 1;
  int32_t uncached_permille = 0;  // requests that take no part in the prefix index
  int32_t flush_permille = 0;     // per event
  int32_t repeat_permille = 0;    // per event: a result comes twice
  int32_t max_n = 1;
  int32_t beam_permille = 0;  // requests that are beam searches
  int32_t max_beam_width = 1;
  int32_t scored_permille = 0;  // requests that ask for the log-probabilities of their prompt

  static SimScenario FromSeed(uint64_t seed);
  std::string ToString() const;
};

}  // namespace octavo

#endif  // OCTAVO_TESTS_SIM_SIM_SCENARIO_H_
