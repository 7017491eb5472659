// The decoder graph of the Llama family, written once as straight-line calls of backend ops.
// Touvron et al., LLaMA (2023); families differ in the data of ModelConfig only.
#ifndef OCTAVO_WORKER_MODEL_DECODER_H_
#define OCTAVO_WORKER_MODEL_DECODER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/backend/backend.h"
#include "worker/backend/buffer.h"
#include "worker/comm/communicator.h"
#include "worker/model/model.h"

namespace octavo {

// The largest step.
struct DecoderLimits {
  int32_t max_rows = 0;       // tokens
  int32_t max_sampled = 0;    // rows whose logits are wanted
  int32_t max_positions = 0;  // context plus generated tokens of a sequence
};

// Owned and called by the device thread.
class Decoder {
 public:
  // Device bytes that Create takes for `limits`: activations of the largest step, and RoPE's table.
  static int64_t ActivationBytes(const Model& model, const DecoderLimits& limits);

  // RESOURCE_EXHAUSTED when the activations do not fit. REQUIRES: the references outlive it, and so
  // does `communicator`, which is there when the model is a share.
  static absl::StatusOr<std::unique_ptr<Decoder>> Create(Backend& backend, const Model& model,
                                                         const DecoderLimits& limits,
                                                         Communicator* communicator = nullptr);

  // Writes K and V of all rows of `batch` into their slots and returns the logits of the rows named
  // by `row_ids` (host), [row_ids.size(), vocab]; on ranks other than 0, which sample nothing,
  // those of their part of the vocabulary. They are valid until the next call and may be
  // overwritten. REQUIRES: `batch` and `row_ids` are within the limits and `batch` outlives the
  // ops.
  absl::StatusOr<Matrix> Forward(const StepBatch& batch, const KvPoolView& pool,
                                 const std::vector<int32_t>& row_ids);
  // Logits of further rows of the batch that Forward had last, likewise; they take the place of
  // those before. REQUIRES: at most max_sampled of them.
  absl::StatusOr<Matrix> Logits(const std::vector<int32_t>& row_ids);
  int32_t max_sampled() const { return limits_.max_sampled; }

 private:
  Decoder(Backend& backend, const Model& model, const DecoderLimits& limits,
          Communicator* communicator);

  absl::Status Allocate();
  absl::StatusOr<RopeTable> MakeRope(const RopeConfig& rope, Buffer& cos_sin) const;
  absl::Status Layer(int32_t layer, const StepBatch& batch, const KvPoolView& pool);
  // What a sublayer's last product has left in `added`, which is hidden itself unless the family
  // has a `post_norm`, becomes part of hidden, summed over the ranks. `next` is the norm with which
  // hidden is read next; its weight is missing where not all rows are.
  absl::Status AddToHidden(const Matrix& added, const Buffer& post_norm, const RmsNorm& next);
  // x of every rank becomes their sum. REQUIRES: rows without gaps.
  absl::Status SumOverRanks(const Matrix& x);
  RmsNorm Norm(const Buffer& weight) const;

  Backend& backend_;
  const Model& model_;
  const DecoderLimits limits_;
  Communicator* const communicator_;  // nullptr: one rank
  int64_t rows_ = 0;                  // of the last batch
  RopeTable rope_;
  RopeTable local_rope_;  // of layers with a window
  Buffer cos_sin_;        // [max_positions, rotary_dim / 2, 2]
  Buffer local_cos_sin_;  // the same; empty unless windowed layers have their own
  Buffer hidden_;         // [max_rows, hidden]
  Buffer qkv_;            // [max_rows, (heads + 2 kv_heads) * head_dim]
  Buffer attended_;       // [max_rows, heads * head_dim]
  Buffer gated_;          // [max_rows, intermediate]
  Buffer added_;          // [max_rows, hidden]; only with post norms
  Buffer logits_;         // [max_sampled, LogitCols]
};

}  // namespace octavo

#endif  // OCTAVO_WORKER_MODEL_DECODER_H_
