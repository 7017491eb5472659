#include "common/checkpoint/dummy_checkpoint.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/repeated_noise.h"
#include "common/checkpoint/tensor_table.h"
#include "common/status_macros.h"

namespace octavo {
namespace {

constexpr TensorNaming kNaming = TensorNaming::kHuggingFace;
constexpr uint16_t kOne = 0x3f80;  // bf16
// Where a matrix may begin: a whole line of any cache.
constexpr int64_t kAlignment = 256;

constexpr TensorRole kModelRoles[] = {TensorRole::kTokenEmbedding, TensorRole::kOutputNorm,
                                      TensorRole::kOutput};
constexpr TensorRole kLayerRoles[] = {
    TensorRole::kAttentionNorm,
    TensorRole::kQuery,
    TensorRole::kKey,
    TensorRole::kValue,
    TensorRole::kAttentionOutput,
    TensorRole::kFfnNorm,
    TensorRole::kGate,
    TensorRole::kUp,
    TensorRole::kDown,
};

ModelConfig ConfigOf(const ModelShape& shape) {
  ModelConfig config;
  config.family = "llama";
  config.name = absl::StrCat(shape.name, "-dummy");
  config.num_layers = shape.layers;
  config.hidden_size = shape.hidden;
  config.intermediate_size = shape.ffn;
  config.num_heads = shape.heads;
  config.num_kv_heads = shape.kv_heads;
  config.head_dim = shape.head_dim;
  config.vocab_size = shape.vocab;
  config.max_positions = shape.max_positions;
  config.tied_embeddings = shape.tied_embeddings;
  config.rope.theta = shape.rope_theta;
  config.rope.rotary_dim = shape.head_dim;
  return config;
}

class DummyCheckpoint final : public Checkpoint {
 public:
  explicit DummyCheckpoint(const ModelConfig& config)
      : ones_(static_cast<size_t>(config.hidden_size), kOne) {
    config_ = config;
    tokenizer_.tokens.resize(static_cast<size_t>(config.vocab_size));
    tokenizer_.pre_name = "gpt-2";
  }

  absl::Status Fill() {
    for (const TensorRole role : kModelRoles) {
      if (role != TensorRole::kOutput || !config_.tied_embeddings) Add(role, -1);
    }
    for (int32_t layer = 0; layer < config_.num_layers; ++layer) {
      for (const TensorRole role : kLayerRoles) Add(role, layer);
    }
    OCTAVO_ASSIGN_OR_RETURN(noise_, RepeatedNoise::Create(static_cast<size_t>(noise_bytes_)));
    int64_t at = 0;
    for (auto& [name, tensor] : tensors_) {
      tensor_bytes_ += tensor.bytes;
      if (tensor.shape.size() == 1) {
        tensor.data = reinterpret_cast<const std::byte*>(ones_.data());
      } else {
        tensor.data = noise_->data() + at;
        at += PaddedBytes(tensor.bytes);
      }
    }
    digest_ = ModelDigest(config_, tensors_);
    return absl::OkStatus();
  }

  absl::StatusOr<TensorRef> Tensor(TensorRole role, int32_t layer) const override {
    return FindTensor(tensors_, kNaming, config_, role, layer, config_.name);
  }

 private:
  static int64_t PaddedBytes(int64_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

  void Add(TensorRole role, int32_t layer) {
    TensorRef tensor;
    tensor.name = TensorName(kNaming, role, layer);
    tensor.dtype = DType::kBF16;
    tensor.shape = RoleShape(config_, role);
    tensor.bytes = StorageBytes(tensor.dtype, tensor.rows() * tensor.cols());
    if (tensor.shape.size() == 2) noise_bytes_ += PaddedBytes(tensor.bytes);
    tensors_.emplace(tensor.name, std::move(tensor));
  }

  const std::vector<uint16_t> ones_;  // [hidden_size], every norm
  TensorTable tensors_;
  int64_t noise_bytes_ = 0;
  std::unique_ptr<RepeatedNoise> noise_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Checkpoint>> MakeDummyCheckpoint(const ModelShape& shape) {
  if (!shape.gated_ffn || shape.rope_theta <= 0)
    return absl::UnimplementedError(
        absl::StrCat(shape.name,
                     ": the decoder computes models with gated MLPs and rotary positions; this one "
                     "has ",
                     shape.gated_ffn ? "learned positions" : "an MLP without a gate"));
  const ModelConfig config = ConfigOf(shape);
  OCTAVO_RETURN_IF_ERROR(Validate(config));
  auto checkpoint = std::make_unique<DummyCheckpoint>(config);
  OCTAVO_RETURN_IF_ERROR(checkpoint->Fill());
  return checkpoint;
}

absl::StatusOr<std::unique_ptr<Checkpoint>> OpenModel(const std::string& model,
                                                      const std::string& load_format) {
  if (load_format == "auto") return Checkpoint::Open(model);
  if (load_format != "dummy")
    return absl::InvalidArgumentError(
        absl::StrCat("--load-format is ", load_format, "; it must be auto or dummy"));
  OCTAVO_ASSIGN_OR_RETURN(const ModelShape shape, FindModelShape(model));
  return MakeDummyCheckpoint(shape);
}

}  // namespace octavo
