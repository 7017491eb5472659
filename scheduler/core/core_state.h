// Everything the scheduler remembers between calls, shared by the parts that act on it.
#ifndef OCTAVO_SCHEDULER_CORE_CORE_STATE_H_
#define OCTAVO_SCHEDULER_CORE_CORE_STATE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "common/ids.h"
#include "scheduler/core/admission.h"
#include "scheduler/core/cost_model.h"
#include "scheduler/core/preemption.h"
#include "scheduler/core/prefix_producers.h"
#include "scheduler/core/request_queues.h"
#include "scheduler/core/request_state.h"
#include "scheduler/core/scheduler.h"
#include "scheduler/core/scheduler_config.h"
#include "scheduler/core/slot_use.h"
#include "scheduler/kv/kv_manager.h"
#include "scheduler/kv/swap_pool.h"

namespace octavo {

// A fork adds one entry for each child, after that of its slice.
struct InFlightSlice {
  SequenceState* sequence = nullptr;
  int32_t end = 0;  // context plus tokens: the position of the token it samples
  bool sample = false;
  int32_t first_scored = 0;  // prompt tokens whose scores it brings
  int32_t num_scored = 0;
};

struct InFlightStep {
  StepId step = 0;
  int32_t tokens = 0;
  int32_t prefill_tokens = 0;
  int64_t swap_outs = 0;  // blocks
  int64_t swap_ins = 0;
  std::vector<InFlightSlice> slices;  // in plan order
};

struct CoreState {
  explicit CoreState(const SchedulerConfig& c);

  // Takes the blocks of a running request, of all its choices, and sends it back to the waiting
  // queue. `plan` is that of the step being built, which may swap them out (swap.1); nullptr when
  // the workers have lost them.
  void Preempt(RequestState* request, StepPlan* plan);
  // The workers' copies of what a waiting request had are of no use to it any more.
  void ForgetRetained(RequestState* request, StepId last_step);
  // The table of a choice is gone: of one that `ended`, or that may come back with its request.
  void DropTable(SequenceState* choice, bool ended = true);

  const SchedulerConfig config;
  KvManager kv;
  SwapPool swap;
  CostModel costs;
  RequestQueues queues;
  PrefixProducers producers;
  std::map<RequestId, std::unique_ptr<RequestState>> requests;  // waiting and running
  std::vector<std::unique_ptr<RequestState>> ended;             // named by a step in flight
  std::vector<InFlightStep> in_flight;                          // oldest first
  std::vector<InFlightStep> spare_steps;                        // emptied, memory kept
  std::vector<VictimCandidate> victim_scratch;
  size_t last_slices = 0;           // of the last plan: the next one is about as long
  std::vector<SequenceId> dropped;  // tables that the next plan tells the workers to forget
  std::vector<PreemptionEvent> preemptions;
  std::vector<TokenEvent> aborts;
  HeadWait head_wait = HeadWait::kNotForBlocks;
  SequenceId next_sequence = 1;
  Epoch epoch = 1;
  StepId next_step = 1;
  SchedulerStats counters;  // the levels in it are filled by Scheduler::stats
  uint64_t ended_requests = 0;
  uint64_t ended_tokens = 0;
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_CORE_CORE_STATE_H_
