// CoreState: a running request gives up its blocks.
#include <algorithm>
#include <cmath>
#include <limits>

#include "scheduler/core/core_state.h"

namespace octavo {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Blocks that swapping would copy: shared ones stay with their other holders (swap.1).
int64_t CountCopied(const KvManager& kv, const RetainedTable& retained) {
  int64_t copied = 0;
  for (const RetainedBlock& block : retained.blocks) copied += kv.ref_count(block.block) == 1;
  return copied;
}

// What the victim would cost either way, and the mode that follows. `retained` is what it holds;
// empty for one of several choices, which is always recomputed.
PreemptionEvent Judge(const CoreState& state, const RetainedTable& retained, int32_t lost,
                      int64_t planned) {
  const SchedulerConfig& config = state.config;
  const int64_t copied = CountCopied(state.kv, retained);
  const VictimCosts costs = state.costs.Estimate(lost, copied, planned);
  PreemptionEvent event;
  event.tokens_lost = lost;
  event.recompute_seconds = costs.recompute_seconds;
  event.swap_seconds = kNever;
  if (copied == 0 || copied > state.swap.num_free()) return event;
  event.swap_seconds = costs.swap_seconds;
  if (config.preemption_mode == PreemptionMode::kSwap ||
      (config.preemption_mode == PreemptionMode::kAuto &&
       (costs.swap_seconds < costs.recompute_seconds || state.costs.ProbesSwap()))) {
    event.mode = PreemptionMode::kSwap;
    event.tokens_lost = 0;
    event.swap_bytes = copied * config.block_bytes;
  }
  return event;
}

}  // namespace

void CoreState::Preempt(RequestState* request, StepPlan* plan) {
  const bool by_reset = plan == nullptr;
  const int64_t before = kv.num_free() + kv.num_deferred();
  RetainedTable& retained = request->retained;
  int32_t lost = request->computed_tokens();
  const SequenceState& leader = *request->leader();
  // What began before a flush must not return after it.
  if (kv.retains() && request->single() && lost > 0 && !by_reset && !kv.Outdated(leader.chain)) {
    retained = kv.Retain(leader.table, leader.computed);
    lost -= std::min(lost, retained.shared_tokens);
  }
  PreemptionEvent event =
      by_reset ? PreemptionEvent{.reason = PreemptionReason::kWorkerReset, .tokens_lost = lost}
               : Judge(*this, retained, lost, static_cast<int64_t>(plan->swap_outs.size()));
  if (std::isfinite(event.swap_seconds) && !by_reset) costs.NoteVictim(event.mode);
  event.request = request->rank.id;
  if (event.mode == PreemptionMode::kSwap) {
    for (RetainedBlock& block : retained.blocks) {
      if (kv.ref_count(block.block) > 1) continue;
      block.host = swap.Take();
      plan->swap_outs.push_back({block.block, block.host});
    }
    // The blocks come back when the step that copies them out is committed.
    request->last_step = next_step;
    ++counters.preemptions_swap;
  }
  for (SequenceState& choice : request->choices) {
    if (choice.active) DropTable(&choice, /*ended=*/false);
  }
  kv.Release(&request->spare, request->last_step, /*ended=*/true);
  request->source = nullptr;
  event.blocks = static_cast<int32_t>(kv.num_free() + kv.num_deferred() - before);
  counters.preempted_tokens += static_cast<uint64_t>(event.tokens_lost);
  ++(by_reset ? counters.preemptions_reset : counters.preemptions_pool);
  ++request->preemptions;
  if (!by_reset) ++request->pool_preemptions;
  preemptions.push_back(event);
  queues.Wait(request);
}

void CoreState::ForgetRetained(RequestState* request, StepId last_step) {
  for (const RetainedBlock& block : request->retained.blocks) {
    if (block.host != kPaddingBlock) swap.Release(block.host, last_step);
  }
  request->retained = {};
}

}  // namespace octavo
