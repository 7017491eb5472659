#include "worker/model/step_inputs.h"

#include <algorithm>

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
  for (int32_t group = 0; group < batch_.num_groups; ++group) {
    for (size_t i = 0; i < sequences_.size(); ++i)
      AppendPlaces(batch_.sequences[i], *sequences_[i], group, mirror.limits().block_size);
  }
  OCTAVO_RETURN_IF_ERROR(Upload(token_ids_, device_token_ids_, &batch_.token_ids));
  OCTAVO_RETURN_IF_ERROR(Upload(positions_, device_positions_, &batch_.positions));
  OCTAVO_RETURN_IF_ERROR(Upload(slots_, device_slots_, &batch_.slots));
  return Upload(block_tables_, device_block_tables_, &batch_.block_tables);
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
    token_ids_.push_back(*sequence.last_sampled);
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

template <typename T>
absl::Status StepInputs::Upload(const std::vector<T>& host, Buffer& device, const T** out) {
  const size_t bytes = host.size() * sizeof(T);
  if (device.bytes() < bytes) {
    OCTAVO_ASSIGN_OR_RETURN(device,
                            backend_.Allocate(std::max<size_t>({bytes, 2 * device.bytes(), 4096})));
  }
  *out = device.as<T>();
  return bytes == 0 ? absl::OkStatus() : backend_.CopyToDevice(device.data(), host.data(), bytes);
}

}  // namespace octavo
