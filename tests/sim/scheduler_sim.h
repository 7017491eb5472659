// One seeded life of a Scheduler against a ShadowWorker: arrivals, aborts, resets, pool pressure.
#ifndef OCTAVO_TESTS_SIM_SCHEDULER_SIM_H_
#define OCTAVO_TESTS_SIM_SCHEDULER_SIM_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/step.h"
#include "scheduler/core/scheduler.h"
#include "tests/fakes/fake_model.h"
#include "tests/fakes/shadow_worker.h"
#include "tests/sim/sim_command.h"
#include "tests/sim/sim_scenario.h"
#include "worker/kv/table_mirror.h"

namespace octavo {

struct SimOutcome {
  std::vector<SimCommand> commands;  // drawn until everything had ended
  std::vector<StepPlan> plans;
  SchedulerStats stats;
  int32_t beam_searches = 0;
  int32_t beam_preemptions = 0;  // by the pool, of beam searches
};

class SchedulerSim {
 public:
  SchedulerSim(const SimScenario& scenario, uint64_t seed);

  // Draws commands until every request has ended. The first broken rule is the error;
  // CheckInvariants ends the process. `outcome` grows as it goes.
  absl::Status Run(SimOutcome* outcome);
  // The given commands, then schedule and commit until every request has ended.
  absl::Status Replay(std::span<const SimCommand> commands, SimOutcome* outcome);

 private:
  struct Choice {
    std::vector<TokenId> received;
    bool ended = false;
  };
  struct Expectation {
    Request request;
    std::vector<Choice> choices;
    std::vector<ScoredToken> scores;     // of the prompt, as received
    int32_t preemptions = 0;             // by the pool
    std::vector<Hypothesis> hypotheses;  // of a beam search, once it has ended
    bool aborted = false;
    bool ended = false;
    // Since it began the tables that it has now: flushes before that must not be undone.
    bool running = false;
    int32_t flushes = 0;
  };

  bool Chance(int32_t permille) { return Draw(0, 999) < permille; }
  int64_t Draw(int64_t low, int64_t high);  // both inclusive

  SimCommand Draw();
  Request DrawRequest();
  std::vector<TokenId> DrawPrompt();
  // Turns the request into a beam search as wide as it may be.
  void DrawBeams(Request* request);

  absl::Status Execute(const SimCommand& command, SimOutcome* outcome);
  absl::Status Finish(SimOutcome* outcome);
  absl::Status Add(const Request& request);
  // Tenants, flushes and the off switch, which tokens do not show.
  bool MayRead(SequenceId reader, SequenceId writer) const;
  void NoteStarts(const StepPlan& plan);
  // The levels that waste is computed from, against what the plans made the worker hold.
  absl::Status CheckSlots() const;
  absl::Status Abort(RequestId id);
  absl::Status Reset();
  absl::Status Schedule(SimOutcome* outcome);
  absl::Status Commit(const SimCommand& command);
  // A result that answers no step in flight must be refused.
  absl::Status Repeat(const std::optional<StepResult>& result) const;
  absl::Status Mirror(const StepPlan& plan);
  void RecordSamples(const StepResult& result);
  absl::Status Receive(const std::vector<TokenEvent>& events);
  absl::Status ReceiveScores(const TokenEvent& event, Expectation* expected);
  absl::Status CheckScores(const TokenEvent& event, const Expectation& expected) const;
  absl::Status CheckEnd(const TokenEvent& event, Expectation* expected);
  absl::Status CheckHypothesis(const TokenEvent& event, Expectation* expected);
  absl::Status CheckUsage(const TokenEvent& event, const Expectation& expected) const;
  absl::Status DrainFacts();
  absl::Status CheckAllEnded() const;

  const SimScenario scenario_;
  std::mt19937_64 random_;
  Scheduler scheduler_;
  ShadowWorker worker_;
  // The mirror of a real worker that runs ahead sees the same plans, and must take them all. What a
  // step in flight samples reaches it when the step is committed.
  struct Sampling {
    SequenceId sequence = 0;
    int32_t position = 0;
  };
  std::unique_ptr<TableMirror> mirror_;
  std::deque<std::vector<Sampling>> sampling_;  // of the steps in flight
  std::optional<StepResult> last_result_;
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
