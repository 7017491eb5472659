// A worker's copy of the block tables, rebuilt from the differences that plans carry.
#ifndef OCTAVO_WORKER_KV_TABLE_MIRROR_H_
#define OCTAVO_WORKER_KV_TABLE_MIRROR_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "common/ids.h"
#include "common/sampling_params.h"
#include "common/step.h"

namespace octavo {

// What the worker was configured with; everything a plan says is held against these.
struct MirrorLimits {
  int64_t num_blocks = 0;  // lendable; ids are in [1, num_blocks]
  int32_t block_size = 16;
  int32_t max_model_len = 0;
  int32_t max_num_seqs = 0;            // slices of one plan
  int32_t max_num_batched_tokens = 0;  // tokens of one plan
  int32_t vocab_size = 0;
  std::vector<int32_t> group_windows = {0};  // of each group of layers, in tokens; 0: sees all
  int64_t num_swap_blocks = 0;               // host blocks
};

struct MirroredSequence {
  // The table: rows of one block for each group of layers. Where a group's window has none yet it
  // is the padding block; blocks that windows have left stay, and are not read again (kv.7).
  std::vector<BlockId> blocks;
  SamplingParams sampling;
  uint32_t choice_index = 0;
  int32_t computed_tokens = 0;  // positions [0, computed_tokens) are in the blocks
  std::optional<TokenId> last_sampled;
  int32_t sampled_position = 0;  // where last_sampled stands in the sequence
  // What it sampled last is not known yet: the row of the last step that samples it; -1: known.
  int32_t sampled_row = -1;
};

// Owned and called by the device thread.
class TableMirror {
 public:
  explicit TableMirror(const MirrorLimits& limits);

  // Drops, starts, forks and extends tables as `plan` says, after checking all of it: after an
  // error the mirror is as it was. INVALID_ARGUMENT for what no worker could execute,
  // FAILED_PRECONDITION for what contradicts the plans before; messages carry sequence, value and
  // limit.
  absl::Status Apply(const StepPlan& plan);

  // nullptr when unknown. Valid until the next Apply.
  const MirroredSequence* Find(SequenceId sequence) const;
  // Row `row` of the step of the last applied plan samples what will stand at `position`. REQUIRES:
  // a sequence of that plan, or born in it.
  void ExpectSample(SequenceId sequence, int32_t row, int32_t position);
  // The token that was expected at `position`. Nothing happens when a plan since then has dropped
  // the sequence, or it samples its next token already.
  void RecordSample(SequenceId sequence, TokenId token, int32_t position);

  size_t num_sequences() const { return sequences_.size(); }
  const MirrorLimits& limits() const { return limits_; }

 private:
  absl::Status Check(const StepPlan& plan);
  absl::Status CheckSlice(const SeqSlice& slice) const;
  // Windowed groups have the blocks that the slice writes, and those that a new table reads.
  absl::Status CheckWindows(const SeqSlice& slice, const MirroredSequence* sequence) const;
  absl::Status CheckReplaced(const SeqSlice& slice, const std::vector<BlockCopy>& copies) const;
  bool IsDropped(SequenceId sequence) const;

  const MirrorLimits limits_;
  absl::flat_hash_map<SequenceId, MirroredSequence> sequences_;
  std::vector<SequenceId> dropped_;  // of the plan being checked, sorted; reused
  std::vector<SequenceId> named_;    // by its slices and forks, sorted; reused
};

}  // namespace octavo

#endif  // OCTAVO_WORKER_KV_TABLE_MIRROR_H_
