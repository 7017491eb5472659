// Work lists of the attention kernels: who computes what of a step, decided on the host one step
// ahead (design chapter 8). Pure: no device is needed.
#ifndef OCTAVO_WORKER_CUDA_WORK_LIST_H_
#define OCTAVO_WORKER_CUDA_WORK_LIST_H_

#include <cstdint>
#include <vector>

#include "worker/backend/op_params.h"
#include "worker/cuda/kernels/attention_items.h"

namespace octavo::cuda {

struct WorkListOptions {
  // Blocks of threads that share the decodes of one KV head: multiprocessors x blocks that each
  // holds / KV heads. Fixed, so that one captured launch serves all lengths.
  int32_t num_parts = 1;
  // 0: a row is split wherever that gives every part equal work. Otherwise every this many
  // positions, a multiple of kSplitTokens: a row's bits then do not depend on its batch.
  int32_t fixed_split_tokens = 0;
};

// Splits fall on multiples of this: four warps each have one tile of it.
inline constexpr int32_t kSplitTokens = 4 * kTileTokens;

// The lists of one group of layers, which share a window. Kept from step to step for its capacity.
//
// Decodes, by the rule of FlashMLA (deepseek-ai/FlashMLA, get_decoding_sched_meta): parts take
// contiguous runs of rows x positions, of equal cost when each item costs a fixed overhead beside
// its positions. No part exceeds the mean by more than an overhead and one split.
class AttentionWorkList {
 public:
  // REQUIRES: num_parts > 0; fixed_split_tokens a multiple of kSplitTokens, or 0.
  explicit AttentionWorkList(const WorkListOptions& options);

  // Sequences of one row are decodes, the others chunks. `window`: positions that a row sees, 0:
  // all. `group`: query heads of one KV head.
  void Build(const std::vector<SequenceRows>& sequences, int32_t window, int32_t group);

  const std::vector<DecodeItem>& decode_items() const { return decode_items_; }
  // [num_parts + 1]: part i has items [runs[i], runs[i + 1]); a part without work has none.
  const std::vector<int32_t>& runs() const { return runs_; }
  int32_t num_partials() const { return num_partials_; }  // of the rows in more than one item
  const std::vector<PrefillItem>& prefill_items() const { return prefill_items_; }

  // What Build gives at most for `rows` decodes that see `tokens` positions together.
  int64_t MaxDecodeItems(int64_t rows, int64_t tokens) const;
  int64_t MaxPartials(int64_t rows, int64_t tokens) const;

 private:
  // The part of the positions that one decode sees, in units of kSplitTokens counted from 0.
  struct DecodeRow {
    DecodeItem item;  // its tiles are all that the row sees
    int32_t begin_unit = 0;
    int32_t end_unit = 0;
  };
  void AddDecode(const SequenceRows& sequence, int32_t window);
  void AddChunk(const SequenceRows& sequence, int32_t window, int32_t group);
  void SplitEvenly();
  void SplitAtFixedPositions();
  // Appends the row's positions of units [begin, end) as its next split.
  void AddItem(const DecodeRow& row, int32_t begin_unit, int32_t end_unit, int32_t split);
  // Ends a row in `num_splits` items, the last ones of the list.
  void FinishRow(int32_t num_splits);

  const WorkListOptions options_;
  std::vector<DecodeRow> rows_;
  std::vector<DecodeItem> decode_items_;
  std::vector<int32_t> runs_;
  int32_t num_partials_ = 0;
  std::vector<PrefillItem> prefill_items_;
};

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_WORK_LIST_H_
