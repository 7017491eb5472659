#include "worker/model/weights.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/status_naming.h"
#include "worker/model/shard.h"

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
  Loader(const Checkpoint& checkpoint, Backend& backend, const RankSplit& split,
         const LoadObserver& observer)
      : checkpoint_(checkpoint), backend_(backend), split_(split), observer_(observer) {}

  absl::StatusOr<std::unique_ptr<Model>> Run() {
    model_->config = ShareOf(checkpoint_.config(), split_);
    model_->split = split_;
    for (int32_t rank = 0; rank < split_.place.size; ++rank) {
      OCTAVO_ASSIGN_OR_RETURN(const RankSplit other,
                              SplitCheckpoint(checkpoint_, {rank, split_.place.size}));
      model_->vocab_begins.push_back(other.vocab.begin);
    }
    const ModelConfig& config = model_->config;
    OCTAVO_ASSIGN_OR_RETURN(const TensorRef embedding, Read(TensorRole::kTokenEmbedding, -1));
    OCTAVO_ASSIGN_OR_RETURN(model_->embedding,
                            backend_.PackEmbedding(RowsOf(ViewOf(embedding), split_.vocab)));
    model_->weight_bytes += StorageBytes(embedding.dtype, embedding.cols()) * split_.vocab.size();
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
    // What the ranks' products are added up to gets its bias once.
    const bool first = split_.place.rank == 0;
    if (config.qkv_bias)
      qkv_bias = {TensorRole::kQueryBias, TensorRole::kKeyBias, TensorRole::kValueBias};
    if (config.output_bias && first) output_bias = {TensorRole::kAttentionOutputBias};
    if (config.mlp_bias) gate_up_bias = {TensorRole::kGateBias, TensorRole::kUpBias};
    if (config.mlp_bias && first) down_bias = {TensorRole::kDownBias};
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
    absl::StatusOr<Buffer> buffer = backend_.Allocate(bytes);
    if (!buffer.ok()) return Naming(absl::StrCat("weight ", tensor.name), buffer.status());
    OCTAVO_RETURN_IF_ERROR(backend_.CopyToDevice(buffer->data(), values.data(), bytes));
    model_->weight_bytes += static_cast<int64_t>(bytes);
    return buffer;
  }

  absl::StatusOr<std::unique_ptr<LinearWeight>> Linear(const std::vector<TensorRole>& parts,
                                                       const std::vector<TensorRole>& biases,
                                                       int32_t layer, bool gated = false) {
    LinearSource source;
    source.gated = gated;
    source.head = parts.front() == TensorRole::kOutput;
    std::vector<int64_t> rows;  // of the whole matrices
    for (const TensorRole role : parts) {
      OCTAVO_ASSIGN_OR_RETURN(const TensorRef tensor, Read(role, layer));
      rows.push_back(tensor.rows());
      source.parts.push_back(ShareOfWeight(role, ViewOf(tensor)));
    }
    for (size_t i = 0; i < biases.size(); ++i) {
      OCTAVO_ASSIGN_OR_RETURN(const TensorRef tensor, Read(biases[i], layer));
      OCTAVO_ASSIGN_OR_RETURN(const std::vector<float> values, ToFloats(tensor, rows[i]));
      const IndexRange own = RowRange(parts[i], rows[i]);
      source.bias.insert(source.bias.end(), values.begin() + own.begin, values.begin() + own.end);
    }
    OCTAVO_ASSIGN_OR_RETURN(std::unique_ptr<LinearWeight> weight, backend_.PackLinear(source));
    model_->weight_bytes += weight->bytes();
    return weight;
  }

  // The rows of a matrix of `rows` rows that this rank computes.
  IndexRange RowRange(TensorRole role, int64_t rows) const {
    const int64_t head_dim = model_->config.head_dim;
    switch (role) {
      case TensorRole::kQuery:
        return {split_.heads.begin * head_dim, split_.heads.end * head_dim};
      case TensorRole::kKey:
      case TensorRole::kValue:
        return {split_.kv_heads.begin * head_dim, split_.kv_heads.end * head_dim};
      case TensorRole::kGate:
      case TensorRole::kUp:
        return split_.ffn;
      case TensorRole::kOutput:
        return split_.vocab;
      default:
        return {0, rows};
    }
  }

  WeightView ShareOfWeight(TensorRole role, const WeightView& whole) const {
    const int64_t head_dim = model_->config.head_dim;
    switch (role) {
      case TensorRole::kAttentionOutput:
        return ColumnsOf(whole, {split_.heads.begin * head_dim, split_.heads.end * head_dim});
      case TensorRole::kDown:
        return ColumnsOf(whole, split_.ffn);
      default:
        return RowsOf(whole, RowRange(role, whole.rows));
    }
  }

  absl::Status Report() const {
    if (observer_ && !observer_(done_bytes_, checkpoint_.tensor_bytes()))
      return absl::CancelledError("loading was stopped");
    return absl::OkStatus();
  }

  const Checkpoint& checkpoint_;
  Backend& backend_;
  const RankSplit split_;
  const LoadObserver& observer_;
  std::unique_ptr<Model> model_ = std::make_unique<Model>();
  int64_t done_bytes_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> LoadModel(const Checkpoint& checkpoint, Backend& backend,
                                                 const RankSplit& split,
                                                 const LoadObserver& observer) {
  return Loader(checkpoint, backend, split, observer).Run();
}

absl::StatusOr<std::unique_ptr<Model>> LoadModel(const Checkpoint& checkpoint, Backend& backend,
                                                 const LoadObserver& observer) {
  OCTAVO_ASSIGN_OR_RETURN(const RankSplit whole, SplitCheckpoint(checkpoint, {}));
  return LoadModel(checkpoint, backend, whole, observer);
}

}  // namespace octavo
