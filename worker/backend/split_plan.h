// How the ranks of a group share a model: Shoeybi et al., Megatron-LM (2019). Pure arithmetic.
#ifndef OCTAVO_WORKER_BACKEND_SPLIT_PLAN_H_
#define OCTAVO_WORKER_BACKEND_SPLIT_PLAN_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/executor.h"

namespace octavo {

// One worker's place in its group.
struct GroupPlace {
  int32_t rank = 0;
  int32_t size = 1;
};

// INVALID_ARGUMENT unless 1 <= size <= kMaxWorldSize and 0 <= rank < size.
absl::Status Validate(const GroupPlace& place);

struct IndexRange {
  int64_t begin = 0;
  int64_t end = 0;  // exclusive
  int64_t size() const { return end - begin; }
  friend bool operator==(const IndexRange&, const IndexRange&) = default;
};

// What of a model decides how it can be split.
struct SplitDimensions {
  int32_t num_heads = 0;
  int32_t num_kv_heads = 0;  // divides num_heads
  int32_t head_dim = 0;
  int32_t intermediate_size = 0;
  int32_t vocab_size = 0;
  // Consecutive elements of a row that the attention output's and the down projection's formats
  // store together: those two are split along their rows.
  int32_t output_block = 1;
  int32_t down_block = 1;
};

// One rank's share. Ranges of all ranks follow each other and cover everything once, but for KV
// heads when there are fewer of them than ranks: then each is held by several neighbours, among
// whom its query heads are divided.
struct RankSplit {
  GroupPlace place;
  IndexRange kv_heads;  // at least one
  IndexRange heads;     // query heads, at least one, all of them of `kv_heads`
  IndexRange ffn;       // columns of the MLP, at least one
  IndexRange vocab;     // rows of embedding and head, at least one
};

// Runs differ by one unit at most, earlier ranks have the larger ones: rank 0 holds as much cache
// as any other. INVALID_ARGUMENT with value and limit when a rank would have nothing to do, or when
// a run would begin inside a storage block.
absl::StatusOr<RankSplit> SplitForRank(const SplitDimensions& dimensions, const GroupPlace& place);

}  // namespace octavo

#endif  // OCTAVO_WORKER_BACKEND_SPLIT_PLAN_H_
