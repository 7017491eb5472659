#include "worker/model/shard.h"

#include <algorithm>
#include <numeric>

#include "common/check.h"
#include "common/status_macros.h"

namespace octavo {
namespace {

// A multiple of what every layer's matrix stores together: layers may differ in format.
absl::StatusOr<int32_t> BlockElements(const Checkpoint& checkpoint, TensorRole role) {
  int32_t elements = 1;
  for (int32_t layer = 0; layer < checkpoint.config().num_layers; ++layer) {
    OCTAVO_ASSIGN_OR_RETURN(const TensorRef tensor, checkpoint.Tensor(role, layer));
    elements = std::lcm(elements, Info(tensor.dtype).block_elements);
  }
  return elements;
}

}  // namespace

absl::StatusOr<RankSplit> SplitCheckpoint(const Checkpoint& checkpoint, const GroupPlace& place) {
  const ModelConfig& config = checkpoint.config();
  SplitDimensions dimensions;
  dimensions.num_heads = config.num_heads;
  dimensions.num_kv_heads = config.num_kv_heads;
  dimensions.head_dim = config.head_dim;
  dimensions.intermediate_size = config.intermediate_size;
  dimensions.vocab_size = config.vocab_size;
  if (place.size > 1) {
    OCTAVO_ASSIGN_OR_RETURN(dimensions.output_block,
                            BlockElements(checkpoint, TensorRole::kAttentionOutput));
    OCTAVO_ASSIGN_OR_RETURN(dimensions.down_block, BlockElements(checkpoint, TensorRole::kDown));
  }
  return SplitForRank(dimensions, place);
}

ModelConfig ShareOf(const ModelConfig& config, const RankSplit& split) {
  ModelConfig share = config;
  share.num_heads = static_cast<int32_t>(split.heads.size());
  share.num_kv_heads = static_cast<int32_t>(split.kv_heads.size());
  share.intermediate_size = static_cast<int32_t>(split.ffn.size());
  return share;
}

WeightView RowsOf(const WeightView& whole, const IndexRange& rows) {
  OCTAVO_CHECK(0 <= rows.begin && rows.begin <= rows.end && rows.end <= whole.rows, whole.name);
  WeightView part = whole;
  part.rows = rows.size();
  part.data = whole.row(rows.begin);
  return part;
}

WeightView ColumnsOf(const WeightView& whole, const IndexRange& columns) {
  const int64_t block = Info(whole.dtype).block_elements;
  OCTAVO_CHECK(0 <= columns.begin && columns.begin <= columns.end && columns.end <= whole.cols &&
                   columns.begin % block == 0 && columns.end % block == 0,
               whole.name, " columns ", columns.begin, " to ", columns.end);
  WeightView part = whole;
  part.row_bytes = whole.stride_bytes();
  part.cols = columns.size();
  part.data = whole.data + StorageBytes(whole.dtype, columns.begin);
  return part;
}

}  // namespace octavo
