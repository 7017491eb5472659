#include "scheduler/core/core_state.h"

namespace octavo {

CoreState::CoreState(const SchedulerConfig& c)
    : config(c),
      kv(c.num_blocks, c.block_size,
         {.enabled = c.prefix_cache,
          .key = c.prefix_cache_key,
          .model_revision = c.model_revision,
          .kv_dtype = c.kv_dtype,
          .digest_bits = c.prefix_digest_bits},
         c.group_windows),
      queues(static_cast<size_t>(MaxRunning(c))),
      producers(c.block_size) {}

void CoreState::DropTable(SequenceState* choice) {
  producers.Remove(choice);
  if (choice->started) dropped.push_back(choice->id);
  // By the request's last step: one of another choice may copy out of a block of this one.
  kv.Release(&choice->table, choice->request->last_step);
  choice->computed = 0;
  choice->awaits = 0;
  choice->started = false;
  choice->decoding = false;
}

void CoreState::Preempt(RequestState* request, PreemptionReason reason) {
  const bool by_reset = reason == PreemptionReason::kWorkerReset;
  const int32_t lost = request->computed_tokens();
  const int64_t before = kv.num_free() + kv.num_deferred();
  for (SequenceState& choice : request->choices) {
    if (choice.active) DropTable(&choice);
  }
  kv.Release(&request->spare, request->last_step);
  request->source = nullptr;
  preemptions.push_back({.request = request->rank.id,
                         .reason = reason,
                         .blocks = static_cast<int32_t>(kv.num_free() + kv.num_deferred() - before),
                         .tokens_lost = lost});
  counters.preempted_tokens += static_cast<uint64_t>(lost);
  ++(by_reset ? counters.preemptions_reset : counters.preemptions_pool);
  ++request->preemptions;
  if (!by_reset) ++request->pool_preemptions;
  queues.Wait(request);
}

}  // namespace octavo
