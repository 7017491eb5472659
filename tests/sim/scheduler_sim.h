// One seeded life of a Scheduler against a ShadowWorker: arrivals, aborts, resets, pool pressure.
#ifndef OCTAVO_TESTS_SIM_SCHEDULER_SIM_H_
#define OCTAVO_TESTS_SIM_SCHEDULER_SIM_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/step.h"
#include "scheduler/core/scheduler.h"
#include "tests/fakes/fake_model.h"
#include "tests/fakes/shadow_worker.h"
#include "worker/kv/table_mirror.h"

namespace octavo {

// What a seed decides. Defaults are overwritten by FromSeed.
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
  int32_t max_n = 1;

  static SimScenario FromSeed(uint64_t seed);
  std::string ToString() const;
};

struct SimOutcome {
  std::vector<StepPlan> plans;
  SchedulerStats stats;
  int32_t events = 0;  // drawn until everything had ended
};

class SchedulerSim {
 public:
  SchedulerSim(const SimScenario& scenario, uint64_t seed);

  // Runs until every request has ended. The first broken rule is the error; CheckInvariants ends
  // the process.
  absl::Status Run(SimOutcome* outcome);

 private:
  struct Choice {
    std::vector<TokenId> received;
    bool ended = false;
  };
  struct Expectation {
    Request request;
    std::vector<Choice> choices;
    int32_t preemptions = 0;  // by the pool
    bool aborted = false;
    bool ended = false;
    // Since it began the tables that it has now: flushes before that must not be undone.
    bool running = false;
    int32_t flushes = 0;
  };

  bool Chance(int32_t permille) { return Draw(0, 999) < permille; }
  int64_t Draw(int64_t low, int64_t high);  // both inclusive

  absl::Status OneEvent(SimOutcome* outcome);
  absl::Status AddOne();
  std::vector<TokenId> DrawPrompt();
  // Tenants, flushes and the off switch, which tokens do not show.
  bool MayRead(SequenceId reader, SequenceId writer) const;
  void NoteStarts(const StepPlan& plan);
  // The levels that waste is computed from, against what the plans made the worker hold.
  absl::Status CheckSlots() const;
  absl::Status AbortOne();
  absl::Status ScheduleOne(SimOutcome* outcome);
  absl::Status CommitOne();
  absl::Status Mirror(const StepPlan& plan, const StepResult& result);
  absl::Status Receive(const std::vector<TokenEvent>& events);
  absl::Status CheckEnd(const TokenEvent& event, Expectation* expected);
  absl::Status CheckUsage(const TokenEvent& event, const Expectation& expected) const;
  absl::Status DrainFacts();
  absl::Status CheckAllEnded() const;

  const SimScenario scenario_;
  std::mt19937_64 random_;
  Scheduler scheduler_;
  ShadowWorker worker_;
  // The mirror of a real worker sees the same plans, when they run, and must take them all.
  std::unique_ptr<TableMirror> mirror_;
  std::deque<StepPlan> unmirrored_;
  absl::Time now_ = absl::UnixEpoch();
  std::map<RequestId, Expectation> requests_;
  std::vector<std::vector<TokenId>> shared_prompts_;
  std::vector<RequestId> by_sequence_ = {0};  // [sequence]; ids are given in order
  RequestId next_id_ = 1;
  int32_t flushes_ = 0;
  int64_t discarded_ = 0;  // samples of committed steps that gave no event
  int64_t stops_ = 0;      // choices, by end
  int64_t aborts_ = 0;
};

}  // namespace octavo

#endif  // OCTAVO_TESTS_SIM_SCHEDULER_SIM_H_
