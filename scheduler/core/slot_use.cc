// Scheduler::slot_use.
#include "scheduler/core/slot_use.h"

#include <algorithm>

#include "scheduler/core/core_state.h"
#include "scheduler/core/scheduler.h"

namespace octavo {
namespace {

// Empty slots of its own blocks that a choice will write. In a partly filled block that others hold
// too nobody writes: whoever goes on copies it first.
int64_t ReservedSlots(const KvManager& kv, const SequenceState& choice) {
  const int64_t block_size = kv.block_size();
  const int64_t groups = kv.num_groups();
  const int64_t end =
      std::min(choice.request->max_cached_tokens(), kv.NumRows(choice.table) * block_size);
  int64_t slots = 0;
  for (int64_t row = choice.computed / block_size; row * block_size < end; ++row) {
    const int64_t first = std::max<int64_t>(choice.computed, row * block_size);
    for (int64_t group = 0; group < groups; ++group) {
      const BlockId block = choice.table.blocks()[static_cast<size_t>(row * groups + group)];
      if (block == kPaddingBlock) continue;
      if (first > row * block_size && kv.ref_count(block) > 1) continue;
      slots += std::min(end, (row + 1) * block_size) - first;
    }
  }
  return slots;
}

}  // namespace

SlotUse Scheduler::slot_use() const {
  const CoreState& state = *state_;
  SlotUse use;
  use.used = state.kv.filled_slots();
  for (const RequestState* request : state.queues.running()) {
    for (const SequenceState& choice : request->choices) {
      // One that awaits its source holds the source's blocks, and will write further ones.
      if (choice.active && choice.awaits <= request->source_computed) {
        use.reserved += ReservedSlots(state.kv, choice);
      }
    }
    use.reserved += request->spare.num_blocks() * state.kv.block_size();
  }
  use.internal = state.kv.held_slots() - use.used - use.reserved;
  use.free = state.kv.num_unheld() * state.kv.block_size();
  use.head_wait = state.head_wait;
  return use;
}

}  // namespace octavo
