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
      swap(c.num_swap_blocks),
      costs(c),
      queues(static_cast<size_t>(MaxRunning(c))),
      producers(c.block_size) {}

void CoreState::DropTable(SequenceState* choice, bool ended) {
  producers.Remove(choice);
  if (choice->started) dropped.push_back(choice->id);
  // By the request's last step: one of another choice may copy out of a block of this one, and one
  // that swaps them out names no table.
  kv.Release(&choice->table, choice->request->last_step, ended);
  choice->computed = 0;
  choice->awaits = 0;
  choice->started = false;
  choice->decoding = false;
}

}  // namespace octavo
