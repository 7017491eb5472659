#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/hf_fields.h"
#include "common/checkpoint/hf_model.h"
#include "common/status_macros.h"

namespace octavo {
namespace {

constexpr size_t kMaxConfigBytes = 4 << 20;
constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();

bool IsGemma(const ModelConfig& config) {
  return config.family == "gemma2" || config.family == "gemma3";
}

absl::Status ReadSizes(const JsonObject& top, ModelConfig* config) {
  OCTAVO_RETURN_IF_ERROR(RequiredField(top, "num_hidden_layers", &config->num_layers));
  OCTAVO_RETURN_IF_ERROR(RequiredField(top, "hidden_size", &config->hidden_size));
  OCTAVO_RETURN_IF_ERROR(RequiredField(top, "intermediate_size", &config->intermediate_size));
  OCTAVO_RETURN_IF_ERROR(RequiredField(top, "num_attention_heads", &config->num_heads));
  OCTAVO_RETURN_IF_ERROR(RequiredField(top, "vocab_size", &config->vocab_size));
  OCTAVO_RETURN_IF_ERROR(RequiredField(top, "max_position_embeddings", &config->max_positions));
  // Absent, the classes disagree (Mistral 8, Qwen 32); present and null means one per head.
  if (config->family != "llama" && !top.json().contains("num_key_value_heads")) {
    return top.Missing("num_key_value_heads");
  }
  config->num_kv_heads = config->num_heads;
  OCTAVO_RETURN_IF_ERROR(OptionalField(top, "num_key_value_heads", &config->num_kv_heads));
  config->head_dim = config->family == "qwen3" ? 128
                     : IsGemma(*config)        ? 256
                                               : config->hidden_size / config->num_heads;
  OCTAVO_RETURN_IF_ERROR(OptionalField(top, "head_dim", &config->head_dim));
  config->norm_eps = 1e-6f;
  return OptionalField(top, "rms_norm_eps", &config->norm_eps);
}

absl::Status ReadActivation(const JsonObject& top, ModelConfig* config) {
  const absl::string_view key = IsGemma(*config) ? "hidden_activation" : "hidden_act";
  OCTAVO_ASSIGN_OR_RETURN(const std::string* activation, top.String(key));
  if (activation == nullptr) {
    config->activation = IsGemma(*config) ? Activation::kGeluTanh : Activation::kSilu;
  } else if (*activation == "silu" || *activation == "swish") {
    config->activation = Activation::kSilu;
  } else if (*activation == "gelu_pytorch_tanh" || *activation == "gelu_new") {
    config->activation = Activation::kGeluTanh;
  } else {
    return top.Unimplemented(key, ShowJson(Json(*activation)), "silu and gelu_pytorch_tanh are");
  }
  return absl::OkStatus();
}

// `window` in the layers that layer_types names or, without it, in those that `is_local` does.
template <typename IsLocal>
absl::Status SetWindows(const JsonObject& top, int32_t window, IsLocal is_local,
                        ModelConfig* config) {
  OCTAVO_ASSIGN_OR_RETURN(const Json* types, top.Array("layer_types"));
  if (types != nullptr && types->size() != static_cast<size_t>(config->num_layers)) {
    return absl::InvalidArgumentError(absl::StrCat(top.Name("layer_types"), " has ", types->size(),
                                                   " entries for ", config->num_layers, " layers"));
  }
  std::vector<int32_t> windows;
  for (int32_t layer = 0; layer < config->num_layers; ++layer) {
    bool local = is_local(layer);
    if (types != nullptr) {
      const Json& type = (*types)[static_cast<size_t>(layer)];
      local = type == "sliding_attention";
      if (!local && type != "full_attention") {
        return top.Unimplemented("layer_types", ShowJson(type),
                                 "sliding_attention and full_attention are");
      }
    }
    windows.push_back(local ? window : 0);
  }
  if (std::any_of(windows.begin(), windows.end(), [](int32_t w) { return w > 0; })) {
    config->layer_windows = std::move(windows);
  }
  return absl::OkStatus();
}

absl::Status ReadWindows(const JsonObject& top, ModelConfig* config) {
  if (config->family == "llama") return absl::OkStatus();
  int32_t window = 0;
  OCTAVO_RETURN_IF_ERROR(OptionalField(top, "sliding_window", &window));
  const bool silent = !top.json().contains("sliding_window");  // null means none
  if (config->family == "mistral") {
    if (silent) window = 4096;
    return SetWindows(
        top, window, [](int32_t) { return true; }, config);
  }
  if (IsGemma(*config)) {
    if (silent) window = 4096;
    int32_t period = config->family == "gemma2" ? 2 : 6;
    OCTAVO_RETURN_IF_ERROR(OptionalField(top, "sliding_window_pattern", &period));
    OCTAVO_RETURN_IF_ERROR(OptionalField(top, "_sliding_window_pattern", &period));
    return SetWindows(
        top, window, [&](int32_t layer) { return (layer + 1) % period != 0; }, config);
  }
  bool use = false;
  OCTAVO_RETURN_IF_ERROR(OptionalField(top, "use_sliding_window", &use));
  if (!use) return absl::OkStatus();
  OCTAVO_ASSIGN_OR_RETURN(const auto first, top.Integer("max_window_layers", 0, kMaxInt32));
  return SetWindows(
      top, window, [&](int32_t layer) { return layer >= first.value_or(28); }, config);
}

// What Gemma does besides: Gemma2Config, Gemma3TextConfig.
absl::Status ReadGemma(const JsonObject& top, ModelConfig* config) {
  config->post_norms = true;
  config->qk_norm = config->family == "gemma3";
  config->norm_offset = 1.0f;
  config->embedding_scale = std::sqrt(static_cast<float>(config->hidden_size));
  float scalar = 256;
  OCTAVO_RETURN_IF_ERROR(OptionalField(top, "query_pre_attn_scalar", &scalar));
  config->attention_scale = static_cast<float>(1 / std::sqrt(static_cast<double>(scalar)));
  const auto cap = [&](absl::string_view key, float fallback, float* field) {
    const bool said = top.json().contains(std::string(key));  // null means none
    *field = said || config->family == "gemma3" ? 0.0f : fallback;
    return OptionalField(top, key, field);
  };
  OCTAVO_RETURN_IF_ERROR(cap("attn_logit_softcapping", 50.0f, &config->attention_softcap));
  OCTAVO_RETURN_IF_ERROR(cap("final_logit_softcapping", 30.0f, &config->logit_softcap));
  bool both_ways = false;
  OCTAVO_RETURN_IF_ERROR(OptionalField(top, "use_bidirectional_attention", &both_ways));
  if (both_ways) return top.Unimplemented("use_bidirectional_attention", "true", "only false is");
  return absl::OkStatus();
}

absl::Status ReadBiases(const JsonObject& top, ModelConfig* config) {
  bool attention_bias = false;
  if (config->family == "llama" || config->family == "qwen3" || IsGemma(*config)) {
    OCTAVO_RETURN_IF_ERROR(OptionalField(top, "attention_bias", &attention_bias));
  }
  config->qkv_bias = attention_bias || config->family == "qwen2";
  config->output_bias = attention_bias;
  if (config->family == "llama") {
    OCTAVO_RETURN_IF_ERROR(OptionalField(top, "mlp_bias", &config->mlp_bias));
  }
  config->qk_norm = config->family == "qwen3";
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<HfConfig> ReadHfConfig(absl::string_view text, absl::string_view path) {
  OCTAVO_ASSIGN_OR_RETURN(const Json json, ParseJson(text, path, kMaxConfigBytes));
  OCTAVO_ASSIGN_OR_RETURN(const JsonObject top, JsonObject::From(json, path, ""));
  OCTAVO_ASSIGN_OR_RETURN(const std::string* family, top.String("model_type"));
  if (family == nullptr) return top.Missing("model_type");
  if (*family != "llama" && *family != "mistral" && *family != "qwen2" && *family != "qwen3" &&
      *family != "gemma2" && *family != "gemma3_text") {
    return top.Unimplemented("model_type", ShowJson(Json(*family)),
                             "llama, mistral, qwen2, qwen3, gemma2 and gemma3_text are");
  }
  if (top.Find("quantization_config") != nullptr) {
    return top.Unimplemented("quantization_config", "present", "F32, F16 and BF16 weights are");
  }
  HfConfig result;
  ModelConfig& config = result.model;
  config.family = *family == "gemma3_text" ? "gemma3" : *family;
  OCTAVO_RETURN_IF_ERROR(ReadSizes(top, &config));
  OCTAVO_RETURN_IF_ERROR(ReadActivation(top, &config));
  OCTAVO_RETURN_IF_ERROR(ReadWindows(top, &config));
  OCTAVO_RETURN_IF_ERROR(ReadBiases(top, &config));
  if (IsGemma(config)) OCTAVO_RETURN_IF_ERROR(ReadGemma(top, &config));
  OCTAVO_RETURN_IF_ERROR(ReadHfRope(top, &config));
  result.says_tied = top.Find("tie_word_embeddings") != nullptr;
  OCTAVO_RETURN_IF_ERROR(OptionalField(top, "tie_word_embeddings", &config.tied_embeddings));
  if (absl::Status status = Validate(config); !status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", status.message()));
  }
  return result;
}

}  // namespace octavo
