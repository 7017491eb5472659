#include "scheduler/core/core_state.h"

namespace octavo {

void CoreState::Preempt(RequestState* request, bool by_reset) {
  preemptions.push_back({.request = request->rank.id,
                         .blocks = static_cast<int32_t>(request->table.num_blocks()),
                         .tokens_lost = request->computed,
                         .by_reset = by_reset});
  counters.preempted_tokens += request->computed;
  ++(by_reset ? counters.preemptions_reset : counters.preemptions_pool);
  ++request->preemptions;
  if (!by_reset) {
    ++request->pool_preemptions;
    dropped.push_back(request->sequence);
  }
  kv.Release(&request->table, request->last_step);
  request->computed = 0;
  request->decoding = false;
  queues.Wait(request);
}

}  // namespace octavo
