// Turns a plan and the mirrored tables into what the backend ops read.
#ifndef OCTAVO_WORKER_MODEL_STEP_INPUTS_H_
#define OCTAVO_WORKER_MODEL_STEP_INPUTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "common/ids.h"
#include "common/step.h"
#include "worker/backend/backend.h"
#include "worker/backend/buffer.h"
#include "worker/kv/table_mirror.h"

namespace octavo {

// Owned and called by the device thread. Its buffers grow to the largest step seen and stay.
class StepInputs {
 public:
  // REQUIRES: `backend` outlives the inputs.
  explicit StepInputs(Backend& backend) : backend_(backend) {}

  // REQUIRES: `plan` was applied to `mirror`. Rows are in plan order.
  absl::Status Build(const StepPlan& plan, const TableMirror& mirror);

  const StepBatch& batch() const { return batch_; }
  // Of the slices that sample, in plan order, each before its forks: the row whose logits count,
  // how to choose, for whom.
  const std::vector<int32_t>& sampled_row_ids() const { return sampled_row_ids_; }
  const std::vector<SampleRow>& sample_rows() const { return sample_rows_; }
  const std::vector<SequenceId>& sampled_sequences() const { return sampled_sequences_; }

  // Of the slices that score, in plan order: the rows, each with the token to report.
  struct ScoredSlice {
    SequenceId sequence = 0;
    int32_t rows = 0;
  };
  const std::vector<ScoredSlice>& scored_slices() const { return scored_slices_; }
  const std::vector<int32_t>& scored_row_ids() const { return scored_row_ids_; }
  const std::vector<SampleRow>& score_rows() const { return score_rows_; }

 private:
  void AppendScores(const SeqSlice& slice, int32_t first_row);
  void AppendRows(const SeqSlice& slice, const MirroredSequence& sequence, int32_t block_size);
  // The group's part of the table, and the slots of the rows.
  void AppendPlaces(const SequenceRows& rows, const MirroredSequence& sequence, int32_t group,
                    int32_t block_size);
  // Sends the arrays in one copy. Where each begins depends on the numbers of rows and groups only,
  // the tables being last: steps of equal rows read from equal addresses.
  absl::Status Upload();

  Backend& backend_;
  StepBatch batch_;
  std::vector<const MirroredSequence*> sequences_;  // of batch_.sequences
  std::vector<int32_t> sampled_row_ids_;
  std::vector<SampleRow> sample_rows_;
  std::vector<SequenceId> sampled_sequences_;
  std::vector<ScoredSlice> scored_slices_;
  std::vector<int32_t> scored_row_ids_;
  std::vector<SampleRow> score_rows_;

  // The arrays of batch_.
  std::vector<TokenId> token_ids_;
  std::vector<int32_t> positions_;
  std::vector<int64_t> slots_;
  std::vector<BlockId> block_tables_;
  std::vector<std::byte> host_;  // all of them, as they lie in device_
  Buffer device_;
};

}  // namespace octavo

#endif  // OCTAVO_WORKER_MODEL_STEP_INPUTS_H_
