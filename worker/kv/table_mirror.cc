#include "worker/kv/table_mirror.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/executor.h"
#include "common/kv_groups.h"
#include "common/status_macros.h"
#include "worker/kv/plan_check.h"

namespace octavo {

TableMirror::TableMirror(const MirrorLimits& limits) : limits_(limits) {}

absl::Status TableMirror::Apply(const StepPlan& plan) {
  OCTAVO_RETURN_IF_ERROR(Check(plan));
  for (const SequenceId sequence : plan.dropped) sequences_.erase(sequence);
  for (const SeqSlice& slice : plan.slices) {
    MirroredSequence& sequence = sequences_[slice.sequence];
    if (slice.start) {
      sequence.sampling = slice.start->sampling;
      sequence.choice_index = slice.start->choice_index;
    }
    for (const BlockReplacement& replaced : slice.replaced)
      sequence.blocks[static_cast<size_t>(replaced.index)] = replaced.block;
    sequence.blocks.insert(sequence.blocks.end(), slice.new_blocks.begin(), slice.new_blocks.end());
    sequence.computed_tokens = slice.context_length + slice.num_tokens;
    if (slice.forks.empty()) continue;
    MirroredSequence child = sequence;
    child.last_sampled.reset();
    child.sampled_row = -1;
    for (const Fork& fork : slice.forks) {
      child.choice_index = fork.choice_index;
      sequences_[fork.child] = child;
    }
  }
  return absl::OkStatus();
}

const MirroredSequence* TableMirror::Find(SequenceId sequence) const {
  const auto found = sequences_.find(sequence);
  return found == sequences_.end() ? nullptr : &found->second;
}

void TableMirror::ExpectSample(SequenceId sequence, int32_t row, int32_t position) {
  const auto found = sequences_.find(sequence);
  OCTAVO_CHECK(found != sequences_.end(), "sequence=", sequence);
  found->second.last_sampled.reset();
  found->second.sampled_row = row;
  found->second.sampled_position = position;
}

void TableMirror::RecordSample(SequenceId sequence, TokenId token, int32_t position) {
  const auto found = sequences_.find(sequence);
  if (found == sequences_.end() || found->second.sampled_position != position) return;
  found->second.last_sampled = token;
  found->second.sampled_row = -1;
}

bool TableMirror::IsDropped(SequenceId sequence) const {
  return std::binary_search(dropped_.begin(), dropped_.end(), sequence);
}

absl::Status TableMirror::Check(const StepPlan& plan) {
  if (static_cast<int64_t>(plan.slices.size()) > limits_.max_num_seqs)
    return absl::InvalidArgumentError(absl::StrCat("plan has ", plan.slices.size(),
                                                   " slices; the limit is ", limits_.max_num_seqs,
                                                   " (max_num_seqs)"));
  OCTAVO_RETURN_IF_ERROR(CheckCopies(plan.copies, limits_.num_blocks));
  OCTAVO_RETURN_IF_ERROR(CheckSwaps(plan, limits_.num_blocks, limits_.num_swap_blocks));

  dropped_.assign(plan.dropped.begin(), plan.dropped.end());
  std::sort(dropped_.begin(), dropped_.end());
  dropped_.erase(std::unique(dropped_.begin(), dropped_.end()), dropped_.end());
  named_.clear();
  int64_t tokens = 0;
  int64_t samples = 0;
  // Forgetting a sequence that was never known is harmless, so drops are not refused.
  int64_t held = static_cast<int64_t>(sequences_.size());
  for (const SequenceId sequence : dropped_) held -= sequences_.contains(sequence);
  for (const SeqSlice& slice : plan.slices) {
    OCTAVO_RETURN_IF_ERROR(CheckSliceShape(slice, limits_));
    OCTAVO_RETURN_IF_ERROR(CheckSlice(slice));
    OCTAVO_RETURN_IF_ERROR(CheckReplaced(slice, plan.copies));
    named_.push_back(slice.sequence);
    for (const Fork& fork : slice.forks) {
      if (!IsDropped(fork.child) && sequences_.contains(fork.child))
        return absl::FailedPreconditionError(
            absl::StrCat("sequence ", fork.child, ": is born again without having been dropped"));
      named_.push_back(fork.child);
    }
    tokens += slice.num_tokens;
    held += slice.start.has_value() + static_cast<int64_t>(slice.forks.size());
    samples += slice.sample ? 1 + static_cast<int64_t>(slice.forks.size()) : 0;
  }
  if (samples > limits_.max_num_seqs)
    return absl::InvalidArgumentError(absl::StrCat("plan has ", samples, " samples; the limit is ",
                                                   limits_.max_num_seqs, " (max_num_seqs)"));
  if (tokens > limits_.max_num_batched_tokens)
    return absl::InvalidArgumentError(absl::StrCat("plan has ", tokens, " tokens; the limit is ",
                                                   limits_.max_num_batched_tokens,
                                                   " (max_num_batched_tokens)"));
  std::sort(named_.begin(), named_.end());
  const auto twice = std::adjacent_find(named_.begin(), named_.end());
  if (twice != named_.end())
    return absl::InvalidArgumentError(
        absl::StrCat("sequence ", *twice, " has two slices, or is born twice"));
  // Ended sequences may linger until the steps in flight that name them are committed (life.1).
  const int64_t most = int64_t{limits_.max_num_seqs} * (1 + kMaxStepsInFlight);
  if (held > most)
    return absl::InvalidArgumentError(absl::StrCat("worker would hold ", held,
                                                   " sequences; the limit is ", most, ", ",
                                                   1 + kMaxStepsInFlight, " x max_num_seqs"));
  return absl::OkStatus();
}

absl::Status TableMirror::CheckSlice(const SeqSlice& slice) const {
  const auto error = [&](auto... parts) {
    return absl::FailedPreconditionError(absl::StrCat("sequence ", slice.sequence, ": ", parts...));
  };
  const MirroredSequence* sequence = IsDropped(slice.sequence) ? nullptr : Find(slice.sequence);
  if (slice.start && sequence != nullptr) return error("starts again without having been dropped");
  if (!slice.start && sequence == nullptr) return error("unknown, and the slice does not start it");

  const auto groups = static_cast<int64_t>(limits_.group_windows.size());
  const int64_t entries = static_cast<int64_t>(slice.new_blocks.size()) +
                          (sequence == nullptr ? 0 : static_cast<int64_t>(sequence->blocks.size()));
  if (entries % groups != 0)
    return absl::InvalidArgumentError(absl::StrCat("sequence ", slice.sequence, ": table of ",
                                                   entries, " blocks for ", groups,
                                                   " groups of layers"));
  const int64_t blocks = entries / groups;
  const int64_t most_blocks =
      (int64_t{limits_.max_model_len} + limits_.block_size - 1) / limits_.block_size;
  if (blocks > most_blocks)
    return absl::InvalidArgumentError(
        absl::StrCat("sequence ", slice.sequence, ": table of ", blocks, " blocks; max_model_len ",
                     limits_.max_model_len, " needs at most ", most_blocks));
  const int64_t end = int64_t{slice.context_length} + slice.num_tokens;
  if (end > blocks * limits_.block_size)
    return absl::InvalidArgumentError(absl::StrCat(
        "sequence ", slice.sequence, ": context ", slice.context_length, " + ", slice.num_tokens,
        " tokens do not fit in ", blocks, " blocks of ", limits_.block_size, " (step.2)"));
  if (groups > 1 || limits_.group_windows[0] > 0)
    OCTAVO_RETURN_IF_ERROR(CheckWindows(slice, sequence));
  if (sequence == nullptr) return absl::OkStatus();

  if (slice.context_length > sequence->computed_tokens)
    return error("context ", slice.context_length, " is past the ", sequence->computed_tokens,
                 " tokens that were computed");
  if (slice.feed_sampled) {
    if (!sequence->last_sampled && sequence->sampled_row < 0)
      return error("feed_sampled before anything was sampled");
    if (sequence->sampled_position != slice.context_length)
      return error("feed_sampled at position ", slice.context_length,
                   ", but the last sampled token is that of position ", sequence->sampled_position);
  }
  return absl::OkStatus();
}

absl::Status TableMirror::CheckWindows(const SeqSlice& slice,
                                       const MirroredSequence* sequence) const {
  const size_t groups = limits_.group_windows.size();
  const size_t held = sequence == nullptr ? 0 : sequence->blocks.size();
  const auto is_padding = [&](size_t entry) {
    for (const BlockReplacement& replaced : slice.replaced)
      if (replaced.index == static_cast<int32_t>(entry)) return false;
    return (entry < held ? sequence->blocks[entry] : slice.new_blocks[entry - held]) ==
           kPaddingBlock;
  };
  const int64_t end = int64_t{slice.context_length} + slice.num_tokens;
  for (size_t group = 0; group < groups; ++group) {
    const int32_t window = limits_.group_windows[group];
    // What a running sequence reads was there when it was written.
    const int64_t first = sequence == nullptr
                              ? FirstBlockSeen(slice.context_length, window, limits_.block_size)
                              : slice.context_length / limits_.block_size;
    for (int64_t row = first; row * limits_.block_size < end; ++row) {
      if (!is_padding(static_cast<size_t>(row) * groups + group)) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "sequence ", slice.sequence, ": group ", group, " of layers has no block for ", "tokens ",
          row * limits_.block_size, " to ", (row + 1) * limits_.block_size - 1, " (kv.7)"));
    }
  }
  return absl::OkStatus();
}

absl::Status TableMirror::CheckReplaced(const SeqSlice& slice,
                                        const std::vector<BlockCopy>& copies) const {
  if (slice.replaced.empty()) return absl::OkStatus();
  const MirroredSequence* sequence = IsDropped(slice.sequence) ? nullptr : Find(slice.sequence);
  const int64_t held = sequence == nullptr ? 0 : static_cast<int64_t>(sequence->blocks.size());
  for (const BlockReplacement& replaced : slice.replaced) {
    if (replaced.index < 0 || replaced.index >= held)
      return absl::FailedPreconditionError(absl::StrCat("sequence ", slice.sequence,
                                                        ": replaces entry ", replaced.index,
                                                        " of a table of ", held, " blocks"));
    const BlockCopy copy = {sequence->blocks[static_cast<size_t>(replaced.index)], replaced.block};
    if (copy.source == kPaddingBlock) continue;  // a windowed group's, lent late
    if (std::find(copies.begin(), copies.end(), copy) == copies.end())
      return absl::InvalidArgumentError(
          absl::StrCat("sequence ", slice.sequence, ": block ", copy.source, " is replaced by ",
                       copy.target, ", which the plan does not copy it to (kv.2)"));
  }
  return absl::OkStatus();
}

}  // namespace octavo
