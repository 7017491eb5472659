// Work lists of the attention kernels: who computes what of a step, decided on the host one step
// ahead (design chapter 8). Pure: no device is needed.
#ifndef OCTAVO_WORKER_CUDA_WORK_LIST_H_
#define OCTAVO_WORKER_CUDA_WORK_LIST_H_

#include <cstdint>
#include <vector>

#include "worker/backend/op_params.h"
#include "worker/cuda/kernels/attention_items.h"
#include "worker/cuda/shared_prefix.h"

namespace octavo::cuda {

struct WorkListOptions {
  // Blocks of threads that share the decodes of one KV head: multiprocessors x blocks that each
  // holds / KV heads. Fixed, so that one captured launch serves all lengths.
  int32_t num_parts = 1;
  // 0: a row is split wherever that gives every part equal work. Otherwise every this many
  // positions, a multiple of kSplitTokens, or of a row so long that these would be more than
  // kMostFixedSplits, every smallest multiple of it that gives no more: a row's bits then do not
  // depend on its batch.
  int32_t fixed_split_tokens = 0;
  // Rows that one shared item may have; 1: rows read alone. Needs fixed_split_tokens 0.
  int32_t shared_rows = 1;
  int32_t least_sharing_gain = 2;  // SharingCosts::least_gain
};

// Splits fall on multiples of this: four warps each have one tile of it.
inline constexpr int32_t kSplitTokens = 4 * kTileTokens;
// Bounds what rows in fixed splits keep of partial results.
inline constexpr int32_t kMostFixedSplits = 32;

// The lists of one group of layers, which share a window. Kept from step to step for its capacity.
//
// Decodes, by the rule of FlashMLA (deepseek-ai/FlashMLA, get_decoding_sched_meta): parts take
// contiguous runs of rows x positions, of equal cost when each item costs a fixed overhead beside
// its positions. No part exceeds the mean by more than an overhead and one split.
//
// Rows that begin with the same blocks share those in items of several rows, where that pays
// (shared_prefix.h), and have only the rest for themselves. Rows whose window has left position 0
// read alone.
class AttentionWorkList {
 public:
  // REQUIRES: num_parts > 0; fixed_split_tokens a multiple of kSplitTokens, or 0, and then
  // shared_rows 1 or more.
  explicit AttentionWorkList(const WorkListOptions& options);

  // Sequences of one row are decodes, the others chunks. `window`: positions that a row sees, 0:
  // all. `group`: query heads of one KV head.
  void Build(const std::vector<SequenceRows>& sequences, int32_t window, int32_t group,
             const HostTables& tables = {});

  const std::vector<DecodeItem>& decode_items() const { return decode_items_; }
  // [num_parts + 1]: part i has items [runs[i], runs[i + 1]); a part without work has none.
  const std::vector<int32_t>& runs() const { return runs_; }
  // Of the shared items, by DecodeItem::row.
  const std::vector<SharedRow>& shared_rows() const { return shared_rows_; }
  int32_t num_partials() const { return num_partials_; }  // of the rows in more than one item
  const std::vector<PrefillItem>& prefill_items() const { return prefill_items_; }

  // What Build gives at most for `rows` decodes that see up to `positions` positions each. Of
  // shared rows `rows`.
  int64_t MaxDecodeItems(int64_t rows, int64_t positions) const;
  int64_t MaxPartials(int64_t rows, int64_t positions) const;

 private:
  // What is to be split: the positions that one decode sees, or that some share, in units of
  // kSplitTokens counted from 0.
  struct Job {
    DecodeItem item;  // its tiles are all of them
    int32_t begin_unit = 0;
    int32_t end_unit = 0;
    int64_t overhead = 0;     // of each item, in units
    int32_t first_split = 0;  // splits of the row before this job's
    int32_t shared_row = -1;  // the row's number among the shared ones
    bool is_shared() const { return item.num_shared > 0; }
    int64_t units() const { return end_unit - begin_unit; }
  };
  void AddDecode(const SequenceRows& sequence, int32_t window);
  void AddChunk(const SequenceRows& sequence, int32_t window, int32_t group);
  // Puts shared jobs before the rest of their rows, and the other rows behind.
  void Share(int32_t group, const HostTables& tables);
  void SplitEvenly();
  void SplitAtFixedPositions();
  // Appends the job's positions of units [begin, end) as its next split.
  void AddItem(const Job& job, int32_t begin_unit, int32_t end_unit, int32_t split);
  // Ends a job in `num_splits` items, the last ones of the list.
  void Finish(std::vector<Job>::iterator job, int32_t num_splits);

  const WorkListOptions options_;
  std::vector<Job> jobs_;
  std::vector<Job> unordered_;      // of Share
  std::vector<PrefixRow> sharing_;  // of Share; indices are those of jobs
  PrefixFinder finder_;
  std::vector<DecodeItem> decode_items_;
  std::vector<SharedRow> shared_rows_;
  std::vector<int32_t> runs_;
  int32_t num_partials_ = 0;
  std::vector<PrefillItem> prefill_items_;
};

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_WORK_LIST_H_
