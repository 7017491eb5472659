// Checks of a step plan that need no history: sizes, ranges and the shape of the copy set.
#ifndef OCTAVO_WORKER_KV_PLAN_CHECK_H_
#define OCTAVO_WORKER_KV_PLAN_CHECK_H_

#include "absl/status/status.h"
#include "common/step.h"
#include "worker/kv/table_mirror.h"

namespace octavo {

// INVALID_ARGUMENT when the copies name a block out of range or are no parallel set (step.4).
absl::Status CheckCopies(const std::vector<BlockCopy>& copies, int64_t num_blocks);

// INVALID_ARGUMENT when a swap names a block or a host block out of range, or two name the same
// (swap.1).
absl::Status CheckSwaps(const StepPlan& plan, int64_t num_blocks, int64_t num_swap_blocks);

// INVALID_ARGUMENT when the slice alone, whatever its sequence holds, is out of limits.
absl::Status CheckSliceShape(const SeqSlice& slice, const MirrorLimits& limits);

}  // namespace octavo

#endif  // OCTAVO_WORKER_KV_PLAN_CHECK_H_
