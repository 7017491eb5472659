// Where the slots of the KV pool are: used, kept for later, or wasted, and how.
#ifndef OCTAVO_SCHEDULER_CORE_SLOT_USE_H_
#define OCTAVO_SCHEDULER_CORE_SLOT_USE_H_

#include <cstdint>

namespace octavo {

// Why the first of the waiting requests did not start in the last Schedule.
enum class HeadWait {
  kNotForBlocks,  // nobody waits, or for something else: a step's sequences or tokens, a producer
  kForBlocks,     // too few are free
  kForAdjacency,  // enough are free, but not in a row
};

// The split of the PagedAttention paper (section 3.1, figure 2), in slots; one block counts once,
// however many tables hold it. used + reserved + internal are the slots of SchedulerStats'
// held_slots; with free, and the blocks that only steps in flight still name, they are the pool.
struct SlotUse {
  int64_t used = 0;      // have a token, computed or scheduled
  int64_t reserved = 0;  // empty; their request will write them if it runs to max_tokens
  int64_t internal = 0;  // held, and never written by the request that holds them
  int64_t free = 0;      // of free blocks, cached ones included
  HeadWait head_wait = HeadWait::kNotForBlocks;

  // Free slots that help nobody, since the head needs them in a row.
  int64_t external() const { return head_wait == HeadWait::kForAdjacency ? free : 0; }
  // Free slots while somebody waits for slots, for whatever reason: what the paper's figure counts
  // as external fragmentation.
  int64_t left_over() const { return head_wait == HeadWait::kNotForBlocks ? 0 : free; }
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_CORE_SLOT_USE_H_
