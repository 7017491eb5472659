#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/checkpoint/gguf_model.h"
#include "common/status_macros.h"

namespace octavo {
namespace {

constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();

bool IsGemma(absl::string_view architecture) {
  return architecture == "gemma2" || architecture == "gemma3";
}

// Keys of one architecture: "llama.block_count" and so on.
class ArchitectureReader {
 public:
  ArchitectureReader(const GgufFile& file, absl::string_view architecture)
      : file_(file), architecture_(architecture) {}

  std::string Key(absl::string_view name) const { return absl::StrCat(architecture_, ".", name); }

  absl::Status Required(absl::string_view name, int32_t* field) const {
    OCTAVO_ASSIGN_OR_RETURN(const auto value, file_.LayerInteger(Key(name), 1, kMaxInt32));
    if (!value) {
      return absl::InvalidArgumentError(
          absl::StrCat(file_.path(), ": metadata \"", Key(name), "\" is missing"));
    }
    *field = static_cast<int32_t>(*value);
    return absl::OkStatus();
  }

  // Leaves `field` as it is when the key is absent.
  absl::Status Optional(absl::string_view name, int32_t* field) const {
    OCTAVO_ASSIGN_OR_RETURN(const auto value, file_.LayerInteger(Key(name), 0, kMaxInt32));
    if (value) *field = static_cast<int32_t>(*value);
    return absl::OkStatus();
  }

  absl::Status Optional(absl::string_view name, float* field) const {
    OCTAVO_ASSIGN_OR_RETURN(const auto value, file_.Number(Key(name)));
    if (value) *field = static_cast<float>(*value);
    return absl::OkStatus();
  }

 private:
  const GgufFile& file_;
  absl::string_view architecture_;
};

// Parts of other models that share these architecture names; each would change the arithmetic.
absl::Status RefuseUnknownParts(const GgufFile& file, absl::string_view architecture,
                                const ArchitectureReader& reader) {
  for (absl::string_view name :
       {"expert_count", "logit_scale", "residual_scale", "embedding_scale", "attention.scale",
        "attention.clamp_kqv", "attn_logit_softcapping", "final_logit_softcapping"}) {
    if (IsGemma(architecture) && absl::EndsWith(name, "_logit_softcapping")) continue;
    OCTAVO_ASSIGN_OR_RETURN(const auto value, file.Number(reader.Key(name)));
    if (value && *value != 0) {
      return absl::UnimplementedError(absl::StrCat(file.path(), ": metadata \"", reader.Key(name),
                                                   "\" is ", *value,
                                                   "; models that use it are not supported"));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadScaling(const GgufFile& file, const ArchitectureReader& reader, RopeConfig* rope) {
  OCTAVO_RETURN_IF_ERROR(reader.Optional("rope.scale_linear", &rope->factor));  // the old name
  OCTAVO_RETURN_IF_ERROR(reader.Optional("rope.scaling.factor", &rope->factor));
  if (rope->factor == 0) rope->factor = 1;  // llama.cpp reads 0 as "none"
  OCTAVO_RETURN_IF_ERROR(
      reader.Optional("rope.scaling.original_context_length", &rope->original_max_positions));
  OCTAVO_ASSIGN_OR_RETURN(const auto type, file.String(reader.Key("rope.scaling.type")));
  if (!type || *type == "linear") {
    rope->scaling = rope->factor == 1 ? RopeScaling::kNone : RopeScaling::kLinear;
    return absl::OkStatus();
  }
  if (*type == "none") {
    rope->factor = 1;
    return absl::OkStatus();
  }
  if (*type != "yarn") {
    return absl::UnimplementedError(
        absl::StrCat(file.path(), ": metadata \"", reader.Key("rope.scaling.type"), "\" is \"",
                     absl::CHexEscape(*type), "\"; none, linear and yarn are supported"));
  }
  rope->scaling = RopeScaling::kYarn;
  OCTAVO_RETURN_IF_ERROR(reader.Optional("rope.scaling.yarn_beta_fast", &rope->beta_fast));
  OCTAVO_RETURN_IF_ERROR(reader.Optional("rope.scaling.yarn_beta_slow", &rope->beta_slow));
  float scale = 1;
  OCTAVO_RETURN_IF_ERROR(reader.Optional("rope.scaling.attn_factor", &scale));
  OCTAVO_RETURN_IF_ERROR(reader.Optional("rope.scaling.yarn_attn_factor", &scale));
  // YaRN (Peng et al. 2023), section 3.4.
  rope->attention_factor = scale * (0.1f * std::log(rope->factor) + 1.0f);
  return absl::OkStatus();
}

absl::Status ReadFrequencyFactors(const GgufFile& file, RopeConfig* rope) {
  const auto it = file.tensors().find("rope_freqs.weight");
  if (it == file.tensors().end()) return absl::OkStatus();
  const TensorRef& tensor = it->second;
  if (tensor.dtype != DType::kF32 || tensor.shape.size() != 1 ||
      tensor.cols() != rope->rotary_dim / 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        file.path(), ": tensor \"rope_freqs.weight\" has type ", Info(tensor.dtype).name, " and ",
        tensor.cols(), " columns; float32 of shape [", rope->rotary_dim / 2, "] is expected"));
  }
  rope->frequency_factors.resize(static_cast<size_t>(tensor.cols()));
  std::memcpy(rope->frequency_factors.data(), tensor.data, static_cast<size_t>(tensor.bytes));
  return absl::OkStatus();
}

absl::Status ReadRope(const GgufFile& file, const ArchitectureReader& reader, ModelConfig* config) {
  RopeConfig& rope = config->rope;
  // llama.cpp permutes the Q and K rows of llama files only; its other graphs rotate halves.
  rope.style = config->family == "llama" ? RopeStyle::kInterleaved : RopeStyle::kHalfSplit;
  rope.rotary_dim = config->head_dim;
  OCTAVO_RETURN_IF_ERROR(reader.Optional("rope.dimension_count", &rope.rotary_dim));
  OCTAVO_RETURN_IF_ERROR(reader.Optional("rope.freq_base", &rope.theta));
  OCTAVO_RETURN_IF_ERROR(ReadScaling(file, reader, &rope));
  return ReadFrequencyFactors(file, &rope);
}

// In each `period` of layers all but the last see `window` positions; 0 is one endless period.
void SetWindows(int32_t window, int32_t period, ModelConfig* config) {
  config->layer_windows.clear();
  if (window == 0) return;
  for (int32_t layer = 0; layer < config->num_layers; ++layer) {
    config->layer_windows.push_back(period == 0 || layer % period < period - 1 ? window : 0);
  }
}

// What llama.cpp knows of Gemma 2 and 3 without being told by the file (llama-model.cpp,
// LLM_ARCH_GEMMA2, LLM_ARCH_GEMMA3). Norm weights already include the 1 that Gemma adds.
absl::Status ReadGemma(const ArchitectureReader& reader, ModelConfig* config) {
  const bool third = config->family == "gemma3";
  const int32_t layers_of_27b = third ? 62 : 46;
  config->activation = Activation::kGeluTanh;
  config->qk_norm = third;
  config->post_norms = true;
  config->embedding_scale = std::sqrt(static_cast<float>(config->hidden_size));
  if (config->num_layers == layers_of_27b) {
    config->attention_scale = 1.0f / std::sqrt(static_cast<float>(config->hidden_size) /
                                               static_cast<float>(config->num_heads));
  }
  config->attention_softcap = third ? 0.0f : 50.0f;
  config->logit_softcap = third ? 0.0f : 30.0f;
  OCTAVO_RETURN_IF_ERROR(reader.Optional("attn_logit_softcapping", &config->attention_softcap));
  OCTAVO_RETURN_IF_ERROR(reader.Optional("final_logit_softcapping", &config->logit_softcap));
  int32_t window = third ? 0 : 4096, period = third ? 6 : 2;
  OCTAVO_RETURN_IF_ERROR(reader.Optional("attention.sliding_window", &window));
  OCTAVO_RETURN_IF_ERROR(reader.Optional("attention.sliding_window_pattern", &period));
  SetWindows(window, period, config);
  if (!third) return absl::OkStatus();
  RopeConfig local;
  local.style = config->rope.style;
  local.rotary_dim = config->rope.rotary_dim;
  local.theta = 10000.0f;
  OCTAVO_RETURN_IF_ERROR(reader.Optional("rope.freq_base_swa", &local.theta));
  config->local_rope = local;
  return absl::OkStatus();
}

absl::Status ReadSizes(const GgufFile& file, const ArchitectureReader& reader,
                       ModelConfig* config) {
  OCTAVO_RETURN_IF_ERROR(reader.Required("block_count", &config->num_layers));
  OCTAVO_RETURN_IF_ERROR(reader.Required("embedding_length", &config->hidden_size));
  OCTAVO_RETURN_IF_ERROR(reader.Required("feed_forward_length", &config->intermediate_size));
  OCTAVO_RETURN_IF_ERROR(reader.Required("attention.head_count", &config->num_heads));
  OCTAVO_RETURN_IF_ERROR(reader.Required("context_length", &config->max_positions));
  config->num_kv_heads = config->num_heads;
  OCTAVO_RETURN_IF_ERROR(reader.Optional("attention.head_count_kv", &config->num_kv_heads));
  int32_t window = 0;
  OCTAVO_RETURN_IF_ERROR(reader.Optional("attention.sliding_window", &window));
  SetWindows(window, 0, config);
  OCTAVO_RETURN_IF_ERROR(reader.Optional("attention.layer_norm_rms_epsilon", &config->norm_eps));

  config->head_dim = config->hidden_size / config->num_heads;
  OCTAVO_RETURN_IF_ERROR(reader.Optional("attention.key_length", &config->head_dim));
  int32_t value_length = config->head_dim;
  OCTAVO_RETURN_IF_ERROR(reader.Optional("attention.value_length", &value_length));
  if (value_length != config->head_dim) {
    return absl::UnimplementedError(
        absl::StrCat(file.path(), ": metadata \"", reader.Key("attention.value_length"), "\" is ",
                     value_length, "; it must equal the key length, ", config->head_dim));
  }

  OCTAVO_RETURN_IF_ERROR(reader.Optional("vocab_size", &config->vocab_size));
  if (config->vocab_size == 0) {
    OCTAVO_ASSIGN_OR_RETURN(const GgufArray* tokens,
                            file.Array("tokenizer.ggml.tokens", GgufType::kString));
    if (tokens != nullptr && tokens->count <= kMaxInt32) {
      config->vocab_size = static_cast<int32_t>(tokens->count);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelConfig> ReadGgufConfig(const GgufFile& file) {
  OCTAVO_ASSIGN_OR_RETURN(const auto architecture, file.String("general.architecture"));
  if (!architecture) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.path(), ": metadata \"general.architecture\" is missing"));
  }
  if (*architecture != "llama" && *architecture != "qwen2" && *architecture != "qwen3" &&
      !IsGemma(*architecture)) {
    return absl::UnimplementedError(absl::StrCat(
        file.path(), ": metadata \"general.architecture\" is \"", absl::CHexEscape(*architecture),
        "\"; llama, qwen2, qwen3, gemma2 and gemma3 are supported"));
  }
  ModelConfig config;
  config.family = std::string(*architecture);
  OCTAVO_ASSIGN_OR_RETURN(const auto name, file.String("general.name"));
  if (name) config.name = std::string(*name);

  const ArchitectureReader reader(file, *architecture);
  OCTAVO_RETURN_IF_ERROR(RefuseUnknownParts(file, *architecture, reader));
  OCTAVO_RETURN_IF_ERROR(ReadSizes(file, reader, &config));
  OCTAVO_RETURN_IF_ERROR(ReadRope(file, reader, &config));

  // Metadata does not say which optional tensors there are; CheckTensors wants them in every layer.
  const auto has = [&file](TensorRole role) {
    return file.tensors().contains(TensorName(TensorNaming::kGguf, role, 0));
  };
  config.tied_embeddings = !has(TensorRole::kOutput);
  config.qkv_bias = has(TensorRole::kQueryBias);
  config.output_bias = has(TensorRole::kAttentionOutputBias);
  config.mlp_bias = has(TensorRole::kGateBias);
  config.qk_norm = config.family == "qwen3";
  if (IsGemma(config.family)) OCTAVO_RETURN_IF_ERROR(ReadGemma(reader, &config));

  if (absl::Status status = Validate(config); !status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(file.path(), ": ", status.message()));
  }
  return config;
}

}  // namespace octavo
