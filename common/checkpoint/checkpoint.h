// A model on disk: a GGUF file or a Hugging Face folder, read in place (memory-mapped) and never
// trusted: every offset, length, type and shape is checked before it is used.
//
//   OCTAVO_ASSIGN_OR_RETURN(auto checkpoint, Checkpoint::Open("/models/SmolLM2.gguf"));
//   OCTAVO_ASSIGN_OR_RETURN(TensorRef q, checkpoint->Tensor(TensorRole::kQuery, /*layer=*/3));
#ifndef OCTAVO_COMMON_CHECKPOINT_CHECKPOINT_H_
#define OCTAVO_COMMON_CHECKPOINT_CHECKPOINT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/checkpoint/model_config.h"
#include "common/checkpoint/tokenizer_spec.h"
#include "common/dtype.h"

namespace octavo {

enum class TensorRole {
  kTokenEmbedding,  // [vocab_size, hidden_size]
  kOutputNorm,      // [hidden_size]
  kOutput,          // [vocab_size, hidden_size]; the embedding itself when tied
  // Per layer:
  kAttentionNorm,    // [hidden_size]
  kQuery,            // [num_heads * head_dim, hidden_size]
  kKey,              // [num_kv_heads * head_dim, hidden_size]
  kValue,            // [num_kv_heads * head_dim, hidden_size]
  kAttentionOutput,  // [hidden_size, num_heads * head_dim]
  kQueryBias,
  kKeyBias,
  kValueBias,
  kAttentionOutputBias,
  kQueryNorm,          // [head_dim]
  kKeyNorm,            // [head_dim]
  kPostAttentionNorm,  // [hidden_size]
  kFfnNorm,            // [hidden_size]
  kPostFfnNorm,        // [hidden_size]
  kGate,               // [intermediate_size, hidden_size]
  kUp,                 // [intermediate_size, hidden_size]
  kDown,               // [hidden_size, intermediate_size]
  kGateBias,
  kUpBias,
  kDownBias,
};

// Points into the mapped file; valid while the Checkpoint lives.
struct TensorRef {
  std::string name;  // as in the file
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;  // outermost first: [rows, cols] or [cols]
  const std::byte* data = nullptr;
  int64_t bytes = 0;

  int64_t rows() const { return shape.size() < 2 ? 1 : shape.front(); }
  int64_t cols() const { return shape.empty() ? 0 : shape.back(); }
};

// Immutable after Open; safe to read from any thread.
class Checkpoint {
 public:
  // NOT_FOUND, PERMISSION_DENIED, or INVALID_ARGUMENT / DATA_LOSS with file, tensor, value and
  // limit.
  static absl::StatusOr<std::unique_ptr<Checkpoint>> Open(const std::string& path);

  virtual ~Checkpoint() = default;

  const ModelConfig& config() const { return config_; }
  const TokenizerSpec& tokenizer() const { return tokenizer_; }
  // Hex digest over configuration and tensor names, types, shapes and offsets plus samples of the
  // data: cheap (it reads a few MiB), and different for different weights in practice.
  const std::string& digest() const { return digest_; }
  int64_t tensor_bytes() const { return tensor_bytes_; }

  // NOT_FOUND when the model has none; INVALID_ARGUMENT when its shape contradicts the config.
  // `layer` is ignored for roles outside layers.
  virtual absl::StatusOr<TensorRef> Tensor(TensorRole role, int32_t layer = -1) const = 0;

 protected:
  ModelConfig config_;
  TokenizerSpec tokenizer_;
  std::string digest_;
  int64_t tensor_bytes_ = 0;
};

}  // namespace octavo

#endif  // OCTAVO_COMMON_CHECKPOINT_CHECKPOINT_H_
