#include "worker/model/step_inputs.h"

#include <algorithm>
#include <bit>
#include <span>

#include "common/check.h"
#include "common/status_macros.h"

namespace octavo {

absl::Status StepInputs::Build(const StepPlan& plan, const TableMirror& mirror) {
  token_ids_.clear();
  positions_.clear();
  slots_.clear();
  block_tables_.clear();
  batch_.sequences.clear();
  batch_.num_table_entries = 0;
  sequences_.clear();
  sampled_row_ids_.clear();
  sample_rows_.clear();
  sampled_sequences_.clear();
  scored_slices_.clear();
  scored_row_ids_.clear();
  score_rows_.clear();
  for (const SeqSlice& slice : plan.slices) {
    const MirroredSequence* sequence = mirror.Find(slice.sequence);
    OCTAVO_CHECK(sequence != nullptr, "sequence=", slice.sequence);
    AppendRows(slice, *sequence, mirror.limits().block_size);
    sequences_.push_back(sequence);
  }
  batch_.num_rows = static_cast<int32_t>(token_ids_.size());
  batch_.num_groups = static_cast<int32_t>(mirror.limits().group_windows.size());
  // The tables of the second group and those after it begin where few lengths make them begin.
  if (batch_.num_groups > 1)
    batch_.num_table_entries = static_cast<int64_t>(
        std::bit_ceil(std::max<uint64_t>(64, static_cast<uint64_t>(batch_.num_table_entries))));
  for (int32_t group = 0; group < batch_.num_groups; ++group) {
    for (size_t i = 0; i < sequences_.size(); ++i)
      AppendPlaces(batch_.sequences[i], *sequences_[i], group, mirror.limits().block_size);
    if (batch_.num_groups > 1)
      block_tables_.resize(static_cast<size_t>((group + 1) * batch_.num_table_entries),
                           kPaddingBlock);
  }
  return Upload();
}

void StepInputs::AppendRows(const SeqSlice& slice, const MirroredSequence& sequence,
                            int32_t block_size) {
  const int32_t end = slice.context_length + slice.num_tokens;
  const int32_t blocks = (end + block_size - 1) / block_size;
  SequenceRows rows;
  rows.first_row = static_cast<int32_t>(token_ids_.size());
  rows.num_rows = slice.num_tokens;
  rows.context_length = slice.context_length;
  rows.table_begin = static_cast<int32_t>(batch_.num_table_entries);
  rows.table_length = blocks;
  batch_.num_table_entries += blocks;
  batch_.sequences.push_back(rows);
  if (slice.feed_sampled)
    token_ids_.push_back(sequence.last_sampled ? *sequence.last_sampled
                                               : SampledByRow(sequence.sampled_row));
  else
    token_ids_.insert(token_ids_.end(), slice.tokens.begin(), slice.tokens.end());
  for (int32_t position = slice.context_length; position < end; ++position)
    positions_.push_back(position);
  if (slice.score) AppendScores(slice, rows.first_row);
  if (!slice.sample) return;
  sampled_row_ids_.push_back(rows.first_row + rows.num_rows - 1);
  sample_rows_.push_back({sequence.sampling, sequence.choice_index, end});
  sampled_sequences_.push_back(slice.sequence);
  // The same row once more for each child: sampling may change the logits it reads.
  for (const Fork& fork : slice.forks) {
    sampled_row_ids_.push_back(rows.first_row + rows.num_rows - 1);
    sample_rows_.push_back({sequence.sampling, fork.choice_index, end});
    sampled_sequences_.push_back(fork.child);
  }
}

void StepInputs::AppendPlaces(const SequenceRows& rows, const MirroredSequence& sequence,
                              int32_t group, int32_t block_size) {
  const BlockId* blocks = sequence.blocks.data() + group;
  const int32_t groups = batch_.num_groups;
  for (int32_t row = 0; row < rows.table_length; ++row)
    block_tables_.push_back(blocks[int64_t{row} * groups]);
  const int32_t end = rows.context_length + rows.num_rows;
  for (int32_t position = rows.context_length; position < end; ++position) {
    const int64_t block = blocks[int64_t{position / block_size} * groups];
    slots_.push_back(block * block_size + position % block_size);
  }
}

void StepInputs::AppendScores(const SeqSlice& slice, int32_t first_row) {
  const ScoreRows& score = *slice.score;
  SampleRow row;
  row.sampling.num_logprobs = score.num_top;
  scored_slices_.push_back({slice.sequence, static_cast<int32_t>(score.targets.size())});
  for (size_t i = 0; i < score.targets.size(); ++i) {
    row.target = score.targets[i];
    scored_row_ids_.push_back(first_row + score.first_row + static_cast<int32_t>(i));
    score_rows_.push_back(row);
  }
}

absl::Status StepInputs::Upload() {
  constexpr size_t kAlignment = 64;
  host_.clear();
  const auto append = [&](const auto& values) {
    const size_t at = host_.size();
    const auto bytes = std::as_bytes(std::span(values));
    host_.insert(host_.end(), bytes.begin(), bytes.end());
    host_.resize((host_.size() + kAlignment - 1) / kAlignment * kAlignment);
    return at;
  };
  const size_t slots = append(slots_);
  const size_t positions = append(positions_);
  const size_t token_ids = append(token_ids_);
  const size_t block_tables = append(block_tables_);
  if (device_.bytes() < host_.size()) {
    const size_t bytes = std::max<size_t>({host_.size(), 2 * device_.bytes(), 4096});
    OCTAVO_ASSIGN_OR_RETURN(device_, backend_.Allocate(bytes));
  }
  const std::byte* const device = device_.data();
  batch_.slots = reinterpret_cast<const int64_t*>(device + slots);
  batch_.positions = reinterpret_cast<const int32_t*>(device + positions);
  batch_.token_ids = reinterpret_cast<const TokenId*>(device + token_ids);
  batch_.block_tables = reinterpret_cast<const BlockId*>(device + block_tables);
  batch_.host_block_tables = block_tables_.data();
  return backend_.CopyToDevice(device_.data(), host_.data(), host_.size());
}

}  // namespace octavo
