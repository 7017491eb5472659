// A worker without a device: checks plans as strictly as a real one, computes with FakeModel over a
// ShadowCache. Synchronous, so that simulations own the order of events.
#ifndef OCTAVO_TESTS_FAKES_SHADOW_WORKER_H_
#define OCTAVO_TESTS_FAKES_SHADOW_WORKER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/step.h"
#include "tests/fakes/shadow_cache.h"

namespace octavo {

struct ShadowWorkerConfig {
  int64_t num_blocks = 0;
  int32_t block_size = 16;
  int32_t vocab_size = 0;
  int32_t max_model_len = 0;
  int32_t max_num_seqs = 0;
  int32_t max_num_batched_tokens = 0;
  std::vector<int32_t> group_windows = {0};  // of each group of layers, in tokens; 0: sees all
  bool contiguous = false;  // a table is one run of block ids, all of it there from the start
  int64_t num_swap_blocks = 0;
};

// Submit takes a plan, as the step stream would; Run computes the oldest and answers it. A plan is
// uncommitted in between: its blocks must not be lent to anyone else (life.1).
//
// A windowed group has left what no later step of its sequence reads once a step has run: those
// blocks may be lent again at once, whatever steps in flight still name them (kv.7).
//
// A table may begin with blocks that others hold or held: what is in them is found by reading the
// slots, so a block of a wrong prefix shows in the tokens, and a stale one as a slot that does not
// fit its neighbours.
//
// Swaps happen as early and as late as a worker may: into blocks when the plan is submitted, out of
// them after the step's compute.
class ShadowWorker {
 public:
  // May `reader` use a slot that `writer` wrote? Tenants, flushes: what the tokens do not show.
  using ReadRule = std::function<bool(SequenceId reader, SequenceId writer)>;

  explicit ShadowWorker(const ShadowWorkerConfig& config);

  // Forgets sequences, step ids, submitted plans and the content of all slots.
  void Reset(Epoch epoch);
  void SetReadRule(ReadRule rule) { read_rule_ = std::move(rule); }

  // FAILED_PRECONDITION with the rule that the plan breaks.
  absl::Status Submit(const StepPlan& plan);
  // REQUIRES: submitted() > 0. DATA_LOSS when attention would read a wrong slot.
  absl::StatusOr<StepResult> Run();

  size_t submitted() const { return submitted_.size(); }
  size_t sequences() const { return mirror_.size(); }
  // Blocks in the tables of the mirror.
  int64_t mirrored_blocks() const;
  // Slots of those blocks, each block once, and those of them that hold a token once the submitted
  // plans have run.
  int64_t held_slots() const;
  int64_t filled_slots() const;
  // Tokens written so far.
  int64_t computed_tokens() const { return computed_tokens_; }
  int64_t copied_blocks() const { return copied_blocks_; }
  int64_t swapped_out_blocks() const { return swapped_out_blocks_; }
  int64_t swapped_in_blocks() const { return swapped_in_blocks_; }

 private:
  // A sequence as the submitted plans describe it.
  struct Mirrored {
    std::vector<BlockId> table;
    int32_t end = 0;       // positions in submitted slices
    bool sampled = false;  // the last of them samples
  };
  // A sequence as far as plans have run.
  struct Computed {
    SequenceStart start;
    std::vector<TokenId> tokens;
    std::optional<TokenId> sampled;  // by its last slice
  };
  // A plan with the tables as they were when it was submitted.
  struct Submitted {
    StepPlan plan;
    std::vector<std::vector<BlockId>> tables;  // by slice
  };

  absl::Status CheckTotals(const StepPlan& plan) const;
  absl::Status CheckCopies(const StepPlan& plan) const;
  absl::Status ApplySlice(const SeqSlice& slice, const std::vector<BlockCopy>& copies);
  absl::Status ApplyBlocks(const SeqSlice& slice, const std::vector<BlockCopy>& copies,
                           std::vector<BlockId>* table) const;
  absl::Status CheckRun(const SeqSlice& slice) const;
  absl::Status CheckCopyTargets(const StepPlan& plan) const;
  // Before the plan's slices: sources, targets and host blocks are nobody's (swap.1, step.4).
  absl::Status CheckSwaps(const StepPlan& plan) const;
  // After them: the sources still are.
  absl::Status CheckSwapSources(const StepPlan& plan) const;
  absl::Status ApplyForks(const SeqSlice& slice);
  // A block that will be written: in no table, and named by no uncommitted step (kv.2, life.1).
  absl::Status CheckScore(const SeqSlice& slice) const;
  absl::Status CheckNewBlock(BlockId block) const;
  // Nobody else's table has the blocks that the slice writes (kv.2).
  absl::Status CheckWrites(const SeqSlice& slice) const;
  int Holders(BlockId block) const;
  int64_t FirstRow(int64_t position, size_t entry) const {
    return cache_.FirstRow(position, static_cast<int32_t>(entry % config_.group_windows.size()));
  }
  // Its tokens up to `end` are computed: forgets what windows have left.
  void Slide(SequenceId sequence, int32_t end);
  std::vector<TokenId> PrefixOf(const ShadowSlot& slot) const;
  absl::Status FindPrefix(const SeqSlice& slice, const std::vector<BlockId>& table,
                          Computed* sequence) const;
  absl::Status RunSlice(const SeqSlice& slice, const std::vector<BlockId>& table,
                        StepResult* result);

  const ShadowWorkerConfig config_;
  ShadowCache cache_;
  Epoch epoch_ = 0;
  StepId next_step_ = 1;
  std::map<SequenceId, Mirrored> mirror_;
  std::map<SequenceId, Computed> computed_;
  std::deque<Submitted> submitted_;
  std::map<ChainHash, std::pair<ChainHash, TokenId>> written_;  // a prefix: all but its last, that
  ReadRule read_rule_ = [](SequenceId, SequenceId) { return true; };
  int64_t computed_tokens_ = 0;
  int64_t copied_blocks_ = 0;
  int64_t swapped_out_blocks_ = 0;
  int64_t swapped_in_blocks_ = 0;
};

}  // namespace octavo

#endif  // OCTAVO_TESTS_FAKES_SHADOW_WORKER_H_
