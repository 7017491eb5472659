#include "common/checkpoint/model_config.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace octavo {
namespace {

// Far above every published model, and small enough that products of any two fit int64.
constexpr int32_t kMaxLayers = 1024;
constexpr int32_t kMaxWidth = 1 << 20;
constexpr int32_t kMaxHeads = 4096;
constexpr int32_t kMaxHeadDim = 1024;
constexpr int32_t kMaxVocabulary = 1 << 21;
constexpr int32_t kMaxPositions = 1 << 28;

absl::Status InRange(const char* field, int64_t value, int64_t min, int64_t max) {
  if (value >= min && value <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", value, "; ", min, " to ", max, " are supported"));
}

absl::Status Positive(const char* field, float value) {
  if (std::isfinite(value) && value > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", value, "; it must be finite and above 0"));
}

absl::Status NotNegative(const char* field, float value) {
  if (std::isfinite(value) && value >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", value, "; it must be finite and at least 0"));
}

absl::Status ValidateRope(const RopeConfig& rope, int32_t head_dim) {
  OCTAVO_RETURN_IF_ERROR(Positive("rope theta", rope.theta));
  OCTAVO_RETURN_IF_ERROR(InRange("rope rotary_dim", rope.rotary_dim, 2, head_dim));
  if (rope.rotary_dim % 2 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("rope rotary_dim is ", rope.rotary_dim, "; it must be even"));
  }
  if (rope.scaling != RopeScaling::kNone) {
    OCTAVO_RETURN_IF_ERROR(Positive("rope factor", rope.factor));
  }
  if (rope.scaling == RopeScaling::kLlama3 || rope.scaling == RopeScaling::kYarn) {
    OCTAVO_RETURN_IF_ERROR(
        InRange("rope original_max_positions", rope.original_max_positions, 1, kMaxPositions));
  }
  if (rope.scaling == RopeScaling::kLlama3) {
    OCTAVO_RETURN_IF_ERROR(Positive("rope low_freq_factor", rope.low_freq_factor));
    OCTAVO_RETURN_IF_ERROR(Positive("rope high_freq_factor", rope.high_freq_factor));
    if (rope.low_freq_factor >= rope.high_freq_factor) {
      return absl::InvalidArgumentError(
          absl::StrCat("rope low_freq_factor is ", rope.low_freq_factor,
                       "; it must be below high_freq_factor, which is ", rope.high_freq_factor));
    }
  }
  if (rope.scaling == RopeScaling::kYarn) {
    OCTAVO_RETURN_IF_ERROR(Positive("rope attention_factor", rope.attention_factor));
    OCTAVO_RETURN_IF_ERROR(Positive("rope beta_fast", rope.beta_fast));
    OCTAVO_RETURN_IF_ERROR(Positive("rope beta_slow", rope.beta_slow));
  }
  const auto factors = static_cast<int64_t>(rope.frequency_factors.size());
  if (factors != 0 && factors != rope.rotary_dim / 2) {
    return absl::InvalidArgumentError(absl::StrCat("rope frequency_factors has ", factors,
                                                   " values; rotary_dim / 2 is ",
                                                   rope.rotary_dim / 2));
  }
  for (float factor : rope.frequency_factors) {
    OCTAVO_RETURN_IF_ERROR(Positive("a rope frequency factor", factor));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Validate(const ModelConfig& config) {
  OCTAVO_RETURN_IF_ERROR(InRange("num_layers", config.num_layers, 1, kMaxLayers));
  OCTAVO_RETURN_IF_ERROR(InRange("hidden_size", config.hidden_size, 1, kMaxWidth));
  OCTAVO_RETURN_IF_ERROR(InRange("intermediate_size", config.intermediate_size, 1, kMaxWidth));
  OCTAVO_RETURN_IF_ERROR(InRange("num_heads", config.num_heads, 1, kMaxHeads));
  OCTAVO_RETURN_IF_ERROR(InRange("num_kv_heads", config.num_kv_heads, 1, config.num_heads));
  OCTAVO_RETURN_IF_ERROR(InRange("head_dim", config.head_dim, 2, kMaxHeadDim));
  OCTAVO_RETURN_IF_ERROR(InRange("vocab_size", config.vocab_size, 1, kMaxVocabulary));
  OCTAVO_RETURN_IF_ERROR(InRange("max_positions", config.max_positions, 1, kMaxPositions));
  const auto windows = static_cast<int64_t>(config.layer_windows.size());
  if (windows != 0) {
    OCTAVO_RETURN_IF_ERROR(
        InRange("the number of layer_windows", windows, config.num_layers, config.num_layers));
  }
  for (const int32_t window : config.layer_windows) {
    OCTAVO_RETURN_IF_ERROR(InRange("sliding_window", window, 0, kMaxPositions));
  }
  OCTAVO_RETURN_IF_ERROR(Positive("embedding_scale", config.embedding_scale));
  OCTAVO_RETURN_IF_ERROR(NotNegative("attention_scale", config.attention_scale));
  OCTAVO_RETURN_IF_ERROR(NotNegative("attention_softcap", config.attention_softcap));
  OCTAVO_RETURN_IF_ERROR(NotNegative("logit_softcap", config.logit_softcap));
  if (config.num_heads % config.num_kv_heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat("num_heads is ", config.num_heads,
                                                   ", which is not a multiple of num_kv_heads, ",
                                                   config.num_kv_heads));
  }
  if (!std::isfinite(config.norm_eps) || config.norm_eps < 0 || config.norm_eps >= 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("norm_eps is ", config.norm_eps, "; it must be at least 0 and below 1"));
  }
  if (config.local_rope) {
    OCTAVO_RETURN_IF_ERROR(ValidateRope(*config.local_rope, config.head_dim));
  }
  return ValidateRope(config.rope, config.head_dim);
}

}  // namespace octavo
