// Decides what every step computes: continuous batching over a paged KV cache.
#ifndef OCTAVO_SCHEDULER_CORE_SCHEDULER_H_
#define OCTAVO_SCHEDULER_CORE_SCHEDULER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/ids.h"
#include "common/step.h"
#include "scheduler/core/beam.h"
#include "scheduler/core/request.h"
#include "scheduler/core/request_report.h"
#include "scheduler/core/scheduler_config.h"
#include "scheduler/core/slot_use.h"

namespace octavo {

struct CoreState;      // core_state.h
struct RequestState;   // request_state.h
struct SequenceState;  // request_state.h

enum class PreemptionReason { kNoFreeBlocks, kWorkerReset };

// A running request lost its blocks; counted by mode and reason and logged by the caller.
struct PreemptionEvent {
  RequestId request = 0;
  PreemptionMode mode = PreemptionMode::kRecompute;  // never kAuto
  PreemptionReason reason = PreemptionReason::kNoFreeBlocks;
  int32_t blocks = 0;  // freed, at once or when the steps in flight are committed
  // Computed tokens given up: what no other table holds, and the host neither. Some may be found
  // again when the request returns.
  int32_t tokens_lost = 0;
  int64_t swap_bytes = 0;  // copied out of one rank
  // What this victim was expected to cost either way, by the rates measured so far; infinite when
  // swapping was no choice: several choices, or no host blocks.
  double recompute_seconds = 0;
  double swap_seconds = 0;
};

// Counters since construction and levels now. Cheap to copy; read at step boundaries.
struct SchedulerStats {
  int64_t num_blocks = 0;
  int64_t free_blocks = 0;    // lendable now and holding nothing worth keeping
  int64_t cached_blocks = 0;  // lendable now, content still indexed
  int64_t active_blocks = 0;  // referenced by a table
  int64_t shared_blocks = 0;  // of those, by two tables or more
  int64_t saved_blocks = 0;   // that tables would hold more if nothing were shared
  // Waste: slots of the blocks that tables of running requests hold (a shared block once; blocks
  // that only steps in flight still name do not count), and those of them that have a token,
  // computed or scheduled. One minus the ratio of their means over time is the share wasted.
  int64_t held_slots = 0;
  int64_t filled_slots = 0;
  int64_t running = 0;
  int64_t waiting = 0;
  int64_t preempted = 0;  // of those waiting, requests that lost their blocks
  int64_t waiting_tokens = 0;
  int64_t steps_in_flight = 0;
  uint64_t steps = 0;
  int64_t num_swap_blocks = 0;     // host blocks
  int64_t used_swap_blocks = 0;    // of those, with content or waiting for it
  uint64_t preemptions_pool = 0;   // for lack of blocks, in either mode
  uint64_t preemptions_swap = 0;   // of those, swapped out
  uint64_t preemptions_reset = 0;  // because the workers were lost; always recomputed
  uint64_t preempted_tokens = 0;
  uint64_t started_prompt_tokens = 0;  // of requests when they first start, found ones included
  uint64_t prompt_tokens = 0;          // computed in prefill, recomputation included
  uint64_t generated_tokens = 0;       // reported
  uint64_t prefix_query_tokens = 0;  // prompt tokens looked up in the prefix index, once a request
  uint64_t prefix_hit_tokens = 0;    // of those, found
  uint64_t recovered_tokens = 0;     // found again by preempted requests, instead of recomputed
  uint64_t swapped_out_blocks = 0;   // by every rank; times block_bytes, of one
  uint64_t swapped_in_blocks = 0;
  uint64_t swap_drops = 0;  // requests whose host blocks were of no use: what came before was gone
  uint64_t prefix_evictions = 0;  // cached blocks lent to somebody else
  uint64_t prefix_flushes = 0;
  uint64_t prefix_waits = 0;        // times a request waited for blocks of another one
  uint64_t saved_blocks_total = 0;  // references made to blocks that another table held already
  uint64_t adjacency_waits = 0;     // steps in which the head lacked only adjacency of free blocks
  uint64_t copies_on_write = 0;     // shared, partly filled blocks copied before a write
  uint64_t finished_stop = 0;       // requests, by the end of their last choice
  uint64_t finished_length = 0;
  uint64_t finished_abort = 0;
  double prefill_tokens_per_second = 0;  // as measured so far, of what a token adds to a step
  double swap_out_bytes_per_second = 0;
  double swap_in_bytes_per_second = 0;
  double mean_length = 0;  // prompt plus generated, of ended requests that ran; 0 before the first
};

// Single-threaded. Deterministic: the same configuration and call sequence give the same plans
// (det.1). Time enters only through arguments.
class Scheduler {
 public:
  // REQUIRES: Validate(config) is OK.
  explicit Scheduler(const SchedulerConfig& config);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // INVALID_ARGUMENT when the request can never run; RESOURCE_EXHAUSTED when the queue is full;
  // ALREADY_EXISTS for an id in use. Messages carry the value and the limit.
  absl::Status Add(Request request);
  // Ends the request now; its blocks return when no uncommitted step names them (life.1). Reports
  // one event with kAbort for each choice that had not ended through TakeAbortEvents. Unknown ids
  // are fine: it may just have ended.
  void Abort(RequestId id);
  // The next step, or nullopt when nothing can run now: nobody has work that fits, or
  // kMaxStepsInFlight steps are uncommitted. With none uncommitted and a request alive there is
  // always a next step (life.2).
  std::optional<StepPlan> Schedule(absl::Time now);
  // INVALID_ARGUMENT unless `result` answers the oldest uncommitted step of the current epoch, with
  // the samples that step asked for. A result comes from a peer, so check it before Commit.
  absl::Status CheckResult(const StepResult& result) const;
  // REQUIRES: CheckResult(result) is OK.
  std::vector<TokenEvent> Commit(const StepResult& result);
  // Epoch + 1; uncommitted steps are forgotten and everything running goes back to recompute.
  void ResetWorkers();
  // Forgets every cached prefix, so that nothing computed before is found afterwards; returns how
  // many blocks were in the index. Blocks in use stay in use; they are never published again.
  int64_t FlushPrefixCache();

  Epoch epoch() const;
  bool idle() const;  // nothing waits, runs or is in flight
  SchedulerStats stats() const;
  // Looks at every running request, unlike stats.
  SlotUse slot_use() const;
  // Facts since the last call, oldest first; the caller logs and counts them.
  std::vector<PreemptionEvent> TakePreemptions();
  std::vector<TokenEvent> TakeAbortEvents();

  // Running requests, then waiting ones, each in order of rank; at most `most`.
  std::vector<RequestReport> ReportRequests(size_t most) const;
  // Both nullopt for ids that are unknown or ended. ExplainWait looks up the request's prefix,
  // which remembers digests and changes no plan.
  std::optional<WaitReport> ExplainWait(RequestId id);
  std::optional<std::vector<ChoiceTable>> ReportTables(RequestId id) const;

  // Ends the process with a message when an invariant of docs/contract.md is broken.
  void CheckInvariants() const;

 private:
  void Deliver(SequenceState* choice, const SampledToken& sample, TokenEvent* event);
  // Beam search (scheduler_beams.cc). An answer for one live beam; when it was the last that was
  // missing, all go on or the search ends, and its events are appended.
  void DeliverToBeam(SequenceState* beam, const SampledToken& sample,
                     std::vector<TokenEvent>* events);
  // Gives sequences and tables to those that live on.
  void Reparent(RequestState* request, const std::vector<BeamSearch::Survivor>& survivors);
  void EndBeams(RequestState* request, bool aborted, std::vector<TokenEvent>* events);
  void EndChoice(SequenceState* choice, FinishReason reason, TokenEvent* event);
  void EndRequest(RequestState* request, FinishReason reason);
  void ForgetEnded();

  std::unique_ptr<CoreState> state_;
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_CORE_SCHEDULER_H_
