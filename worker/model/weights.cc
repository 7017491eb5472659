#include "worker/model/weights.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace octavo {
namespace {

// IEEE binary16, subnormals and infinities included.
float HalfToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 0x1Fu;
  const uint32_t mantissa = half & 0x3FFu;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000u | mantissa << 13);
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

absl::StatusOr<std::vector<float>> ToFloats(const TensorRef& tensor, int64_t expected) {
  if (tensor.rows() != 1 || tensor.cols() != expected)
    return absl::InvalidArgumentError(absl::StrCat("tensor ", tensor.name, " has ", tensor.rows(),
                                                   " x ", tensor.cols(), " elements; expected ",
                                                   expected));
  std::vector<float> values(static_cast<size_t>(expected));
  const auto half = [&](size_t i) {
    uint16_t bits;
    std::memcpy(&bits, tensor.data + 2 * i, 2);
    return bits;
  };
  switch (tensor.dtype) {
    case DType::kF32:
      std::memcpy(values.data(), tensor.data, values.size() * sizeof(float));
      return values;
    case DType::kF16:
      for (size_t i = 0; i < values.size(); ++i) values[i] = HalfToFloat(half(i));
      return values;
    case DType::kBF16:
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = std::bit_cast<float>(static_cast<uint32_t>(half(i)) << 16);
      return values;
    default:
      return absl::InvalidArgumentError(absl::StrCat("tensor ", tensor.name, " is ",
                                                     Info(tensor.dtype).name,
                                                     "; vectors must be float32, fp16 or bf16"));
  }
}

WeightView ViewOf(const TensorRef& tensor) {
  return {tensor.name, tensor.dtype, tensor.rows(), tensor.cols(), tensor.data};
}

// The steps of LoadModel; lives as long as one call.
class Loader {
 public:
  Loader(const Checkpoint& checkpoint, Backend& backend, const LoadObserver& observer)
      : checkpoint_(checkpoint), backend_(backend), observer_(observer) {}

  absl::StatusOr<std::unique_ptr<Model>> Run() {
    model_->config = checkpoint_.config();
    const ModelConfig& config = model_->config;
    OCTAVO_ASSIGN_OR_RETURN(const TensorRef embedding, Read(TensorRole::kTokenEmbedding, -1));
    OCTAVO_ASSIGN_OR_RETURN(model_->embedding, backend_.PackEmbedding(ViewOf(embedding)));
    model_->weight_bytes += embedding.bytes;
    OCTAVO_RETURN_IF_ERROR(Report());
    model_->layers.resize(static_cast<size_t>(config.num_layers));
    for (int32_t layer = 0; layer < config.num_layers; ++layer) {
      OCTAVO_RETURN_IF_ERROR(LoadLayer(layer, model_->layers[static_cast<size_t>(layer)]));
      OCTAVO_RETURN_IF_ERROR(Report());
    }
    OCTAVO_ASSIGN_OR_RETURN(model_->output_norm,
                            Norm(TensorRole::kOutputNorm, -1, config.hidden_size));
    OCTAVO_ASSIGN_OR_RETURN(model_->head, Linear({TensorRole::kOutput}, {}, -1));
    done_bytes_ = checkpoint_.tensor_bytes();
    OCTAVO_RETURN_IF_ERROR(Report());
    return std::move(model_);
  }

 private:
  absl::Status LoadLayer(int32_t layer, LayerWeights& out) {
    const ModelConfig& config = model_->config;
    OCTAVO_ASSIGN_OR_RETURN(out.attention_norm,
                            Norm(TensorRole::kAttentionNorm, layer, config.hidden_size));
    std::vector<TensorRole> qkv_bias, output_bias, gate_up_bias, down_bias;
    if (config.qkv_bias)
      qkv_bias = {TensorRole::kQueryBias, TensorRole::kKeyBias, TensorRole::kValueBias};
    if (config.output_bias) output_bias = {TensorRole::kAttentionOutputBias};
    if (config.mlp_bias) {
      gate_up_bias = {TensorRole::kGateBias, TensorRole::kUpBias};
      down_bias = {TensorRole::kDownBias};
    }
    OCTAVO_ASSIGN_OR_RETURN(
        out.qkv,
        Linear({TensorRole::kQuery, TensorRole::kKey, TensorRole::kValue}, qkv_bias, layer));
    if (config.qk_norm) {
      OCTAVO_ASSIGN_OR_RETURN(out.query_norm, Norm(TensorRole::kQueryNorm, layer, config.head_dim));
      OCTAVO_ASSIGN_OR_RETURN(out.key_norm, Norm(TensorRole::kKeyNorm, layer, config.head_dim));
    }
    OCTAVO_ASSIGN_OR_RETURN(out.output, Linear({TensorRole::kAttentionOutput}, output_bias, layer));
    OCTAVO_ASSIGN_OR_RETURN(out.ffn_norm, Norm(TensorRole::kFfnNorm, layer, config.hidden_size));
    if (config.post_norms) {
      OCTAVO_ASSIGN_OR_RETURN(out.post_attention_norm,
                              Norm(TensorRole::kPostAttentionNorm, layer, config.hidden_size));
      OCTAVO_ASSIGN_OR_RETURN(out.post_ffn_norm,
                              Norm(TensorRole::kPostFfnNorm, layer, config.hidden_size));
    }
    OCTAVO_ASSIGN_OR_RETURN(
        out.gate_up, Linear({TensorRole::kGate, TensorRole::kUp}, gate_up_bias, layer, true));
    OCTAVO_ASSIGN_OR_RETURN(out.down, Linear({TensorRole::kDown}, down_bias, layer));
    return absl::OkStatus();
  }

  absl::StatusOr<TensorRef> Read(TensorRole role, int32_t layer) {
    OCTAVO_ASSIGN_OR_RETURN(TensorRef tensor, checkpoint_.Tensor(role, layer));
    done_bytes_ = std::min(done_bytes_ + tensor.bytes, checkpoint_.tensor_bytes());
    return tensor;
  }

  absl::StatusOr<Buffer> Norm(TensorRole role, int32_t layer, int64_t elements) {
    OCTAVO_ASSIGN_OR_RETURN(const TensorRef tensor, Read(role, layer));
    OCTAVO_ASSIGN_OR_RETURN(std::vector<float> values, ToFloats(tensor, elements));
    for (float& value : values) value += model_->config.norm_offset;
    const size_t bytes = values.size() * sizeof(float);
    OCTAVO_ASSIGN_OR_RETURN(Buffer buffer, backend_.Allocate(bytes));
    OCTAVO_RETURN_IF_ERROR(backend_.CopyToDevice(buffer.data(), values.data(), bytes));
    model_->weight_bytes += static_cast<int64_t>(bytes);
    return buffer;
  }

  absl::StatusOr<std::unique_ptr<LinearWeight>> Linear(const std::vector<TensorRole>& parts,
                                                       const std::vector<TensorRole>& biases,
                                                       int32_t layer, bool gated = false) {
    LinearSource source;
    source.gated = gated;
    for (const TensorRole role : parts) {
      OCTAVO_ASSIGN_OR_RETURN(const TensorRef tensor, Read(role, layer));
      source.parts.push_back(ViewOf(tensor));
    }
    for (size_t i = 0; i < biases.size(); ++i) {
      OCTAVO_ASSIGN_OR_RETURN(const TensorRef tensor, Read(biases[i], layer));
      OCTAVO_ASSIGN_OR_RETURN(const std::vector<float> values,
                              ToFloats(tensor, source.parts[i].rows));
      source.bias.insert(source.bias.end(), values.begin(), values.end());
    }
    OCTAVO_ASSIGN_OR_RETURN(std::unique_ptr<LinearWeight> weight, backend_.PackLinear(source));
    model_->weight_bytes += weight->bytes();
    return weight;
  }

  absl::Status Report() const {
    if (observer_ && !observer_(done_bytes_, checkpoint_.tensor_bytes()))
      return absl::CancelledError("loading was stopped");
    return absl::OkStatus();
  }

  const Checkpoint& checkpoint_;
  Backend& backend_;
  const LoadObserver& observer_;
  std::unique_ptr<Model> model_ = std::make_unique<Model>();
  int64_t done_bytes_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> LoadModel(const Checkpoint& checkpoint, Backend& backend,
                                                 const LoadObserver& observer) {
  return Loader(checkpoint, backend, observer).Run();
}

}  // namespace octavo
