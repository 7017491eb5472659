#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/hf_fields.h"
#include "common/checkpoint/hf_model.h"
#include "common/status_macros.h"

namespace octavo {
namespace {

absl::Status RequireFactor(const JsonObject& object, RopeConfig* rope) {
  if (object.Find("factor") == nullptr) return object.Missing("factor");
  return OptionalField(object, "factor", &rope->factor);
}

// transformers' _compute_yarn_parameters (modeling_rope_utils.py).
absl::Status ReadYarn(const JsonObject& object, int32_t max_positions, RopeConfig* rope) {
  rope->scaling = RopeScaling::kYarn;
  rope->factor =
      static_cast<float>(max_positions) / static_cast<float>(rope->original_max_positions);
  OCTAVO_RETURN_IF_ERROR(OptionalField(object, "factor", &rope->factor));
  OCTAVO_RETURN_IF_ERROR(OptionalField(object, "beta_fast", &rope->beta_fast));
  OCTAVO_RETURN_IF_ERROR(OptionalField(object, "beta_slow", &rope->beta_slow));
  bool truncate = true;
  OCTAVO_RETURN_IF_ERROR(OptionalField(object, "truncate", &truncate));
  if (!truncate) return object.Unimplemented("truncate", "false", "only true is");

  const auto magnitude = [rope](float scale) {
    return rope->factor <= 1 ? 1.0f : 0.1f * scale * std::log(rope->factor) + 1.0f;
  };
  float mscale = 0, mscale_all_dim = 0;
  OCTAVO_RETURN_IF_ERROR(OptionalField(object, "mscale", &mscale));
  OCTAVO_RETURN_IF_ERROR(OptionalField(object, "mscale_all_dim", &mscale_all_dim));
  rope->attention_factor = mscale != 0 && mscale_all_dim != 0
                               ? magnitude(mscale) / magnitude(mscale_all_dim)
                               : magnitude(1);
  return OptionalField(object, "attention_factor", &rope->attention_factor);
}

// rope_parameters (transformers 5) or rope_scaling (before): the same keys, but the first also
// carries theta.
absl::Status ReadScaling(const JsonObject& object, int32_t max_positions, RopeConfig* rope) {
  OCTAVO_RETURN_IF_ERROR(OptionalField(object, "rope_theta", &rope->theta));
  float partial = 1;
  OCTAVO_RETURN_IF_ERROR(OptionalField(object, "partial_rotary_factor", &partial));
  if (partial != 1) {
    return object.Unimplemented("partial_rotary_factor", absl::StrCat(partial), "only 1 is");
  }
  for (absl::string_view key : {"full_attention", "sliding_attention"}) {
    if (object.Find(key) != nullptr) {
      return object.Unimplemented(key, "present", "only Gemma 3 has parameters per kind of layer;");
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
        OptionalField(object, "original_max_position_embeddings", &rope->original_max_positions));
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
    OCTAVO_RETURN_IF_ERROR(OptionalField(object, "low_freq_factor", &rope->low_freq_factor));
    OCTAVO_RETURN_IF_ERROR(OptionalField(object, "high_freq_factor", &rope->high_freq_factor));
    return RequireFactor(object, rope);
  }
  if (*type == "yarn") return ReadYarn(object, max_positions, rope);
  return object.Unimplemented("rope_type", ShowJson(Json(*type)),
                              "default, linear, llama3 and yarn are");
}

// Gemma 3: theta of the layers with and without a window, and scaling of the latter. transformers 5
// keeps both under rope_parameters, earlier versions in keys of their own.
absl::Status ReadGemma3Rope(const JsonObject& top, ModelConfig* config) {
  RopeConfig& rope = config->rope;
  rope.theta = 1e6f;
  RopeConfig local = rope;
  local.theta = 1e4f;
  OCTAVO_RETURN_IF_ERROR(OptionalField(top, "rope_theta", &rope.theta));
  OCTAVO_RETURN_IF_ERROR(OptionalField(top, "rope_local_base_freq", &local.theta));
  OCTAVO_ASSIGN_OR_RETURN(const auto scaling, top.Object("rope_scaling"));
  if (scaling) OCTAVO_RETURN_IF_ERROR(ReadScaling(*scaling, config->max_positions, &rope));
  OCTAVO_ASSIGN_OR_RETURN(const auto parameters, top.Object("rope_parameters"));
  if (parameters) {
    OCTAVO_ASSIGN_OR_RETURN(const auto full, parameters->Object("full_attention"));
    OCTAVO_ASSIGN_OR_RETURN(const auto sliding, parameters->Object("sliding_attention"));
    if (full) OCTAVO_RETURN_IF_ERROR(ReadScaling(*full, config->max_positions, &rope));
    if (sliding) OCTAVO_RETURN_IF_ERROR(ReadScaling(*sliding, config->max_positions, &local));
  }
  config->local_rope = local;
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadHfRope(const JsonObject& top, ModelConfig* config) {
  RopeConfig& rope = config->rope;
  rope.style = RopeStyle::kHalfSplit;
  rope.rotary_dim = config->head_dim;
  float partial = 1;
  OCTAVO_RETURN_IF_ERROR(OptionalField(top, "partial_rotary_factor", &partial));
  if (partial != 1) {
    return top.Unimplemented("partial_rotary_factor", absl::StrCat(partial), "only 1 is");
  }
  if (config->family == "gemma3") return ReadGemma3Rope(top, config);
  OCTAVO_RETURN_IF_ERROR(OptionalField(top, "rope_theta", &rope.theta));
  OCTAVO_RETURN_IF_ERROR(
      OptionalField(top, "original_max_position_embeddings", &rope.original_max_positions));
  OCTAVO_ASSIGN_OR_RETURN(const auto parameters, top.Object("rope_parameters"));
  OCTAVO_ASSIGN_OR_RETURN(const auto scaling, top.Object("rope_scaling"));
  if (parameters) return ReadScaling(*parameters, config->max_positions, &rope);
  if (scaling) return ReadScaling(*scaling, config->max_positions, &rope);
  return absl::OkStatus();
}

}  // namespace octavo
