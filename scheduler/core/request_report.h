// What operators ask about requests: what they hold, and why one waits. Facts between two steps.
#ifndef OCTAVO_SCHEDULER_CORE_REQUEST_REPORT_H_
#define OCTAVO_SCHEDULER_CORE_REQUEST_REPORT_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "common/ids.h"

namespace octavo {

struct RequestReport {
  RequestId id = 0;
  bool running = false;  // otherwise it waits
  int32_t priority = 0;
  absl::Time arrival;
  absl::Time first_scheduled;  // InfiniteFuture before
  int32_t prompt_tokens = 0;
  int32_t cached_tokens = 0;     // of the prompt, found when it first started
  int32_t computed_tokens = 0;   // scheduled or found since it last started
  int32_t generated_tokens = 0;  // of all choices
  int32_t max_tokens = 0;        // of each choice
  int32_t choices = 0;
  int32_t active_choices = 0;  // that have not ended; before the fork all count
  int32_t preemptions = 0;
  int64_t blocks = 0;            // entries of its tables
  int64_t exclusive_blocks = 0;  // of those, held by nobody else
};

// What keeps a request from starting, the first of these that holds.
enum class WaitReason {
  kNone,          // it runs
  kStepInFlight,  // it was preempted, and its last step, or the one that swaps it out, is in flight
  kBehind,        // an earlier one cannot start, and nobody overtakes it
  kSequences,     // max_num_seqs
  kBlocks,        // too few are free above the reserve
  kAdjacency,     // contiguous allocation only: enough are free, but no run of them
  kProducer,      // another request is computing the prefix that it needs next
  kNextStep,      // nothing: it starts with the next step that has tokens left
};

struct WaitReport {
  RequestReport request;
  WaitReason reason = WaitReason::kNone;
  int64_t ahead = 0;     // waiting requests that come before it
  RequestId behind = 0;  // kBehind: the first of those that cannot start
  int64_t sequences_needed = 0;
  int64_t sequences_taken = 0;  // by running requests
  int64_t max_sequences = 0;
  int64_t blocks_needed = 0;    // from the free list, to start
  int64_t blocks_free = 0;      // cached ones included
  int64_t blocks_reserved = 0;  // of those, kept for running sequences: watermark and next step
  int64_t prefix_tokens = 0;    // that it would find computed
  int64_t token_budget = 0;     // of one step
  int64_t tokens_queued = 0;    // that running sequences can put into the next step, at most
  RequestId producer = 0;       // kProducer
  int32_t awaited_block = 0;    // of its own prefix, from 0
};

// One entry of a table: of one row of `block_size` positions, in one group of layers (kv.7).
struct BlockEntry {
  int32_t group = 0;
  BlockId block = kPaddingBlock;  // kPaddingBlock: the window has left it, or has not reached it
  int32_t holders = 0;            // tables that hold it
  bool published = false;         // in the prefix index
};

struct ChoiceTable {
  int32_t choice_index = 0;
  int32_t computed_tokens = 0;
  std::vector<BlockEntry> blocks;  // in order of position, the groups of a row side by side
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_CORE_REQUEST_REPORT_H_
