// One rank's share of a checkpoint: how it is split, and the slices of its tensors.
#ifndef OCTAVO_WORKER_MODEL_SHARD_H_
#define OCTAVO_WORKER_MODEL_SHARD_H_

#include "absl/status/statusor.h"
#include "common/checkpoint/checkpoint.h"
#include "worker/backend/split_plan.h"
#include "worker/backend/tensor_view.h"

namespace octavo {

// INVALID_ARGUMENT, with value and limit, when the checkpoint cannot be split over that many ranks.
absl::StatusOr<RankSplit> SplitCheckpoint(const Checkpoint& checkpoint, const GroupPlace& place);

// The model as one rank computes it: its own heads and MLP columns, the whole model's hidden size
// and vocabulary.
ModelConfig ShareOf(const ModelConfig& config, const RankSplit& split);

// Views of the same bytes. REQUIRES: a range of the matrix; columns begin and end between storage
// blocks.
WeightView RowsOf(const WeightView& whole, const IndexRange& rows);
WeightView ColumnsOf(const WeightView& whole, const IndexRange& columns);

}  // namespace octavo

#endif  // OCTAVO_WORKER_MODEL_SHARD_H_
