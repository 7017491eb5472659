#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/hf_model.h"
#include "common/status_macros.h"

namespace octavo {
namespace {

constexpr size_t kMaxConfigBytes = 4 << 20;
constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();

absl::Status Required(const JsonObject& object, absl::string_view key, int32_t* field) {
  OCTAVO_ASSIGN_OR_RETURN(const auto value, object.Integer(key, 1, kMaxInt32));
  if (!value) return object.Missing(key);
  *field = static_cast<int32_t>(*value);
  return absl::OkStatus();
}

// The optional readers leave `field` as it is when the key is absent or null.
absl::Status Optional(const JsonObject& object, absl::string_view key, int32_t* field) {
  OCTAVO_ASSIGN_OR_RETURN(const auto value, object.Integer(key, 1, kMaxInt32));
  if (value) *field = static_cast<int32_t>(*value);
  return absl::OkStatus();
}

absl::Status Optional(const JsonObject& object, absl::string_view key, float* field) {
  OCTAVO_ASSIGN_OR_RETURN(const auto value, object.Number(key));
  if (value) *field = static_cast<float>(*value);
  return absl::OkStatus();
}

absl::Status Optional(const JsonObject& object, absl::string_view key, bool* field) {
  OCTAVO_ASSIGN_OR_RETURN(const auto value, object.Bool(key));
  if (value) *field = *value;
  return absl::OkStatus();
}

absl::Status RequireFactor(const JsonObject& object, RopeConfig* rope) {
  if (object.Find("factor") == nullptr) return object.Missing("factor");
  return Optional(object, "factor", &rope->factor);
}

// transformers' _compute_yarn_parameters (modeling_rope_utils.py).
absl::Status ReadYarn(const JsonObject& object, int32_t max_positions, RopeConfig* rope) {
  rope->scaling = RopeScaling::kYarn;
  rope->factor =
      static_cast<float>(max_positions) / static_cast<float>(rope->original_max_positions);
  OCTAVO_RETURN_IF_ERROR(Optional(object, "factor", &rope->factor));
  OCTAVO_RETURN_IF_ERROR(Optional(object, "beta_fast", &rope->beta_fast));
  OCTAVO_RETURN_IF_ERROR(Optional(object, "beta_slow", &rope->beta_slow));
  bool truncate = true;
  OCTAVO_RETURN_IF_ERROR(Optional(object, "truncate", &truncate));
  if (!truncate) return object.Unimplemented("truncate", "false", "only true is");

  const auto magnitude = [rope](float scale) {
    return rope->factor <= 1 ? 1.0f : 0.1f * scale * std::log(rope->factor) + 1.0f;
  };
  float mscale = 0, mscale_all_dim = 0;
  OCTAVO_RETURN_IF_ERROR(Optional(object, "mscale", &mscale));
  OCTAVO_RETURN_IF_ERROR(Optional(object, "mscale_all_dim", &mscale_all_dim));
  rope->attention_factor = mscale != 0 && mscale_all_dim != 0
                               ? magnitude(mscale) / magnitude(mscale_all_dim)
                               : magnitude(1);
  return Optional(object, "attention_factor", &rope->attention_factor);
}

// rope_parameters (transformers 5) or rope_scaling (before): the same keys, but the first also
// carries theta.
absl::Status ReadScaling(const JsonObject& object, int32_t max_positions, RopeConfig* rope) {
  OCTAVO_RETURN_IF_ERROR(Optional(object, "rope_theta", &rope->theta));
  float partial = 1;
  OCTAVO_RETURN_IF_ERROR(Optional(object, "partial_rotary_factor", &partial));
  if (partial != 1) {
    return object.Unimplemented("partial_rotary_factor", absl::StrCat(partial), "only 1 is");
  }
  for (absl::string_view key : {"full_attention", "sliding_attention"}) {
    if (object.Find(key) != nullptr) {
      return object.Unimplemented(key, "present", "only one set of parameters for all layers is");
    }
  }
  OCTAVO_ASSIGN_OR_RETURN(const std::string* type, object.String("rope_type"));
  if (type == nullptr) {
    OCTAVO_ASSIGN_OR_RETURN(type, object.String("type"));
  }
  if (type == nullptr || *type == "default") return absl::OkStatus();

  if (rope->original_max_positions == 0) {
    rope->original_max_positions = max_positions;
    OCTAVO_RETURN_IF_ERROR(
        Optional(object, "original_max_position_embeddings", &rope->original_max_positions));
  }
  if (*type == "linear") {
    rope->scaling = RopeScaling::kLinear;
    return RequireFactor(object, rope);
  }
  if (*type == "llama3") {
    rope->scaling = RopeScaling::kLlama3;
    for (absl::string_view key : {"low_freq_factor", "high_freq_factor"}) {
      if (object.Find(key) == nullptr) return object.Missing(key);
    }
    OCTAVO_RETURN_IF_ERROR(Optional(object, "low_freq_factor", &rope->low_freq_factor));
    OCTAVO_RETURN_IF_ERROR(Optional(object, "high_freq_factor", &rope->high_freq_factor));
    return RequireFactor(object, rope);
  }
  if (*type == "yarn") return ReadYarn(object, max_positions, rope);
  return object.Unimplemented("rope_type", ShowJson(Json(*type)),
                              "default, linear, llama3 and yarn are");
}

absl::Status ReadRope(const JsonObject& top, ModelConfig* config) {
  RopeConfig& rope = config->rope;
  rope.style = RopeStyle::kHalfSplit;
  rope.rotary_dim = config->head_dim;
  OCTAVO_RETURN_IF_ERROR(Optional(top, "rope_theta", &rope.theta));
  float partial = 1;
  OCTAVO_RETURN_IF_ERROR(Optional(top, "partial_rotary_factor", &partial));
  if (partial != 1) {
    return top.Unimplemented("partial_rotary_factor", absl::StrCat(partial), "only 1 is");
  }
  OCTAVO_RETURN_IF_ERROR(
      Optional(top, "original_max_position_embeddings", &rope.original_max_positions));
  OCTAVO_ASSIGN_OR_RETURN(const auto parameters, top.Object("rope_parameters"));
  OCTAVO_ASSIGN_OR_RETURN(const auto scaling, top.Object("rope_scaling"));
  if (parameters) return ReadScaling(*parameters, config->max_positions, &rope);
  if (scaling) return ReadScaling(*scaling, config->max_positions, &rope);
  return absl::OkStatus();
}

absl::Status ReadSizes(const JsonObject& top, ModelConfig* config) {
  OCTAVO_RETURN_IF_ERROR(Required(top, "num_hidden_layers", &config->num_layers));
  OCTAVO_RETURN_IF_ERROR(Required(top, "hidden_size", &config->hidden_size));
  OCTAVO_RETURN_IF_ERROR(Required(top, "intermediate_size", &config->intermediate_size));
  OCTAVO_RETURN_IF_ERROR(Required(top, "num_attention_heads", &config->num_heads));
  OCTAVO_RETURN_IF_ERROR(Required(top, "vocab_size", &config->vocab_size));
  OCTAVO_RETURN_IF_ERROR(Required(top, "max_position_embeddings", &config->max_positions));
  // Absent, the classes disagree (Mistral 8, Qwen 32); present and null means one per head.
  if (config->family != "llama" && !top.json().contains("num_key_value_heads")) {
    return top.Missing("num_key_value_heads");
  }
  config->num_kv_heads = config->num_heads;
  OCTAVO_RETURN_IF_ERROR(Optional(top, "num_key_value_heads", &config->num_kv_heads));
  config->head_dim = config->family == "qwen3" ? 128 : config->hidden_size / config->num_heads;
  OCTAVO_RETURN_IF_ERROR(Optional(top, "head_dim", &config->head_dim));
  config->norm_eps = 1e-6f;
  return Optional(top, "rms_norm_eps", &config->norm_eps);
}

absl::Status ReadActivation(const JsonObject& top, ModelConfig* config) {
  OCTAVO_ASSIGN_OR_RETURN(const std::string* activation, top.String("hidden_act"));
  if (activation == nullptr || *activation == "silu" || *activation == "swish") {
    config->activation = Activation::kSilu;
  } else if (*activation == "gelu_pytorch_tanh" || *activation == "gelu_new") {
    config->activation = Activation::kGeluTanh;
  } else {
    return top.Unimplemented("hidden_act", ShowJson(Json(*activation)),
                             "silu and gelu_pytorch_tanh are");
  }
  return absl::OkStatus();
}

// One window for all layers, or none.
absl::Status ReadSlidingWindow(const JsonObject& top, ModelConfig* config) {
  if (config->family == "llama") return absl::OkStatus();
  int32_t window = 0;
  OCTAVO_RETURN_IF_ERROR(Optional(top, "sliding_window", &window));
  if (config->family == "mistral") {
    config->sliding_window = top.json().contains("sliding_window") ? window : 4096;
    return absl::OkStatus();
  }
  bool use = false;
  OCTAVO_RETURN_IF_ERROR(Optional(top, "use_sliding_window", &use));
  if (!use || window == 0) return absl::OkStatus();
  int64_t sliding_layers = 0;
  OCTAVO_ASSIGN_OR_RETURN(const Json* types, top.Array("layer_types"));
  if (types != nullptr) {
    for (const Json& type : *types) sliding_layers += type == "sliding_attention" ? 1 : 0;
  } else {
    OCTAVO_ASSIGN_OR_RETURN(const auto first, top.Integer("max_window_layers", 0, kMaxInt32));
    sliding_layers = std::max<int64_t>(0, config->num_layers - first.value_or(28));
  }
  if (sliding_layers == 0) return absl::OkStatus();
  if (sliding_layers != config->num_layers) {
    return top.Unimplemented(
        "use_sliding_window",
        absl::StrCat("true for ", sliding_layers, " of ", config->num_layers, " layers"),
        "only all or none are");
  }
  config->sliding_window = window;
  return absl::OkStatus();
}

absl::Status ReadBiases(const JsonObject& top, ModelConfig* config) {
  bool attention_bias = false;
  if (config->family == "llama" || config->family == "qwen3") {
    OCTAVO_RETURN_IF_ERROR(Optional(top, "attention_bias", &attention_bias));
  }
  config->qkv_bias = attention_bias || config->family == "qwen2";
  config->output_bias = attention_bias;
  if (config->family == "llama") {
    OCTAVO_RETURN_IF_ERROR(Optional(top, "mlp_bias", &config->mlp_bias));
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
  if (*family != "llama" && *family != "mistral" && *family != "qwen2" && *family != "qwen3") {
    return top.Unimplemented("model_type", ShowJson(Json(*family)),
                             "llama, mistral, qwen2 and qwen3 are");
  }
  if (top.Find("quantization_config") != nullptr) {
    return top.Unimplemented("quantization_config", "present", "F32, F16 and BF16 weights are");
  }
  HfConfig result;
  ModelConfig& config = result.model;
  config.family = *family;
  OCTAVO_RETURN_IF_ERROR(ReadSizes(top, &config));
  OCTAVO_RETURN_IF_ERROR(ReadActivation(top, &config));
  OCTAVO_RETURN_IF_ERROR(ReadSlidingWindow(top, &config));
  OCTAVO_RETURN_IF_ERROR(ReadBiases(top, &config));
  OCTAVO_RETURN_IF_ERROR(ReadRope(top, &config));
  result.says_tied = top.Find("tie_word_embeddings") != nullptr;
  OCTAVO_RETURN_IF_ERROR(Optional(top, "tie_word_embeddings", &config.tied_embeddings));
  if (absl::Status status = Validate(config); !status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", status.message()));
  }
  return result;
}

}  // namespace octavo
