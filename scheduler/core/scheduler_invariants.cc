// Scheduler::CheckInvariants: the rules of docs/contract.md that hold between any two calls.
#include <algorithm>
#include <vector>

#include "common/check.h"
#include "common/executor.h"
#include "scheduler/core/admission.h"
#include "scheduler/core/core_state.h"
#include "scheduler/core/scheduler.h"

namespace octavo {
namespace {

// Running and waiting requests are exactly the ones alive, each in its own list, in order of rank.
void CheckQueues(const CoreState& state) {
  const std::vector<RequestState*>& running = state.queues.running();
  OCTAVO_CHECK(running.size() <= static_cast<size_t>(MaxRunning(state.config)),
               "running=", running.size());
  OCTAVO_CHECK(running.size() + state.queues.waiting().size() == state.requests.size(),
               "running=", running.size(), " waiting=", state.queues.waiting().size(),
               " requests=", state.requests.size());
  OCTAVO_CHECK(std::is_sorted(running.begin(), running.end(), RequestQueues::ByRank()));
  int64_t waiting_tokens = 0;
  for (const RequestState* request : state.queues.waiting()) {
    OCTAVO_CHECK(request->phase == Phase::kWaiting && request->table.empty() &&
                     request->computed == 0 && !request->decoding,
                 "request=", request->rank.id);
    waiting_tokens += request->num_known();
  }
  OCTAVO_CHECK(waiting_tokens == state.queues.waiting_tokens(), "counted=", waiting_tokens,
               " kept=", state.queues.waiting_tokens());
}

// A running request holds the blocks of all it has scheduled (step.2), and none it can never use.
void CheckRunning(const CoreState& state, const RequestState& request) {
  const KvManager& kv = state.kv;
  const int64_t held = request.table.num_blocks();
  OCTAVO_CHECK(request.phase == Phase::kRunning, "request=", request.rank.id);
  OCTAVO_CHECK(held >= kv.BlocksFor(request.computed), "request=", request.rank.id,
               " blocks=", held, " computed=", request.computed);
  OCTAVO_CHECK(held <= kv.BlocksFor(request.max_cached_tokens()), "request=", request.rank.id,
               " blocks=", held, " most tokens=", request.max_cached_tokens());
  OCTAVO_CHECK(!Immune(state.config, request) || held == kv.BlocksFor(request.max_cached_tokens()),
               "immune request=", request.rank.id, " blocks=", held);
  OCTAVO_CHECK(request.pool_preemptions <= state.config.max_preemptions,
               "request=", request.rank.id, " preempted ", request.pool_preemptions, " times");
  const int32_t unscheduled = request.num_known() + request.uncommitted_samples - request.computed;
  OCTAVO_CHECK(request.decoding ? unscheduled == 1 : unscheduled >= 1, "request=", request.rank.id,
               " unscheduled=", unscheduled);
  OCTAVO_CHECK(request.num_generated() + request.uncommitted_samples <= request.request.max_tokens,
               "request=", request.rank.id, " scheduled past max_tokens (step.6)");
}

// Counts per request equal what the steps in flight say; ids are consecutive; budgets are kept.
void CheckSteps(const CoreState& state) {
  OCTAVO_CHECK(state.in_flight.size() <= kMaxStepsInFlight, "steps=", state.in_flight.size());
  std::vector<const RequestState*> named;
  StepId expected = state.next_step - state.in_flight.size();
  for (const InFlightStep& record : state.in_flight) {
    OCTAVO_CHECK(record.step == expected, "step=", record.step, " expected=", expected);
    ++expected;
    OCTAVO_CHECK(record.tokens <= state.config.max_num_batched_tokens, "tokens=", record.tokens);
    OCTAVO_CHECK(record.slices.size() <= static_cast<size_t>(state.config.max_num_seqs),
                 "slices=", record.slices.size());
    for (const InFlightSlice& slice : record.slices) named.push_back(slice.request);
  }
  const auto check = [&](const RequestState& request) {
    OCTAVO_CHECK(std::count(named.begin(), named.end(), &request) == request.uncommitted_slices,
                 "request=", request.rank.id, " slices=", request.uncommitted_slices);
    OCTAVO_CHECK(request.uncommitted_samples <= request.uncommitted_slices,
                 "request=", request.rank.id);
  };
  for (const auto& [id, request] : state.requests) check(*request);
  for (const auto& request : state.ended) {
    OCTAVO_CHECK(request->phase == Phase::kEnded && request->table.empty(),
                 "request=", request->rank.id);
    check(*request);
  }
}

}  // namespace

void Scheduler::CheckInvariants() const {
  const CoreState& state = *state_;
  std::vector<const BlockTable*> tables;
  for (const RequestState* request : state.queues.running()) {
    CheckRunning(state, *request);
    tables.push_back(&request->table);
  }
  CheckQueues(state);
  CheckSteps(state);
  state.kv.CheckInvariants(tables);
}

}  // namespace octavo
