// What a model is, read from GGUF metadata or from a Hugging Face config.json. Families differ in
// data only; one decoder graph serves them all (design chapter 8).
#ifndef OCTAVO_COMMON_CHECKPOINT_MODEL_CONFIG_H_
#define OCTAVO_COMMON_CHECKPOINT_MODEL_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace octavo {

enum class Activation { kSilu, kGeluTanh };

// Which elements of a head are rotated together.
enum class RopeStyle {
  kHalfSplit,    // (i, i + rotary_dim / 2): GPT-NeoX, Hugging Face checkpoints
  kInterleaved,  // (2i, 2i + 1): the permuted Q and K rows of llama-architecture GGUF files
};

enum class RopeScaling { kNone, kLinear, kLlama3, kYarn };

struct RopeConfig {
  float theta = 10000.0f;
  int32_t rotary_dim = 0;  // leading elements of a head that are rotated
  RopeStyle style = RopeStyle::kHalfSplit;
  RopeScaling scaling = RopeScaling::kNone;
  float factor = 1.0f;
  float low_freq_factor = 1.0f;   // llama3
  float high_freq_factor = 4.0f;  // llama3
  int32_t original_max_positions = 0;
  float attention_factor = 1.0f;  // yarn: multiplies cos and sin
  float beta_fast = 32.0f;        // yarn
  float beta_slow = 1.0f;         // yarn
  // GGUF rope_freqs.weight: divides each inverse frequency; empty when absent.
  std::vector<float> frequency_factors;
};

struct ModelConfig {
  std::string family;  // "llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3"
  std::string name;    // for people: general.name, or the folder's name
  int32_t num_layers = 0;
  int32_t hidden_size = 0;
  int32_t intermediate_size = 0;
  int32_t num_heads = 0;
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  int32_t vocab_size = 0;
  int32_t max_positions = 0;
  float norm_eps = 1e-5f;
  Activation activation = Activation::kSilu;
  bool tied_embeddings = false;
  bool qkv_bias = false;
  bool output_bias = false;  // of the attention output projection
  bool mlp_bias = false;
  bool qk_norm = false;     // RMSNorm over head_dim of each q and k head before RoPE (Qwen 3)
  bool post_norms = false;  // RMSNorm of what attention and MLP add to the residual (Gemma 2, 3)
  // What a stored norm weight lacks: checkpoints of Gemma hold w of 1 + w, GGUF files the sum.
  float norm_offset = 0.0f;
  float embedding_scale = 1.0f;    // multiplies the embeddings
  float attention_scale = 0.0f;    // of the scores; 0: 1 / sqrt(head_dim)
  float attention_softcap = 0.0f;  // c: a score s becomes c tanh(s / c); 0: it stays
  float logit_softcap = 0.0f;      // the same for the output
  // Per layer, the tokens that a position sees, itself included; 0: all. Empty: all, in every
  // layer.
  std::vector<int32_t> layer_windows;
  RopeConfig rope;
  // Of the layers with a window, where they have their own (Gemma 3).
  std::optional<RopeConfig> local_rope;

  int32_t WindowOf(int32_t layer) const {
    return layer_windows.empty() ? 0 : layer_windows[static_cast<size_t>(layer)];
  }
};

// INVALID_ARGUMENT naming the field, value and limit when sizes are not positive, do not divide, or
// exceed what the engine handles.
absl::Status Validate(const ModelConfig& config);

}  // namespace octavo

#endif  // OCTAVO_COMMON_CHECKPOINT_MODEL_CONFIG_H_
