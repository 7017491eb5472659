// What of a model decides bytes and operations of a step.
#ifndef OCTAVO_TOOLS_SIMULATE_MODEL_SPEC_H_
#define OCTAVO_TOOLS_SIMULATE_MODEL_SPEC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/cache_geometry.h"

namespace octavo::simulate {

struct ModelSpec {
  std::string name;
  int32_t layers = 0;
  int32_t hidden = 0;
  int32_t heads = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  int32_t ffn = 0;
  int32_t vocab = 0;
  bool gated_ffn = true;         // gate, up and down; otherwise up and down
  bool tied_embeddings = false;  // the output matrix is the embedding
  double weight_bytes = 2;       // of one weight of a layer
  double head_bytes = 2;         // of one weight of the embedding and the output matrix

  KvShape kv_shape() const {
    return {.num_layers = layers, .num_kv_heads = kv_heads, .head_dim = head_dim};
  }
  int64_t layer_weights() const;  // of all layers together; norms and biases do not count
  int64_t head_weights() const { return int64_t{vocab} * hidden; }
  double stored_bytes() const;    // in device memory
  double streamed_bytes() const;  // read by every step: all but the input embedding
};

// The shapes of common/model_shape.h, with two bytes a weight unless the name says otherwise.
// NOT_FOUND lists them.
absl::StatusOr<ModelSpec> ModelPreset(absl::string_view name);
std::vector<std::string> ModelPresetNames();

// A JSON object with the names of Hugging Face's config.json: num_hidden_layers, hidden_size,
// num_attention_heads, num_key_value_heads (default: all heads), head_dim (default: hidden_size /
// heads), intermediate_size, vocab_size, tie_word_embeddings (false); and beyond those gated_ffn
// (true), weight_bytes (2), head_bytes (weight_bytes), name. So a model's own config.json works.
absl::StatusOr<ModelSpec> ReadModelFile(absl::string_view path);
absl::StatusOr<ModelSpec> ParseModel(absl::string_view json);

}  // namespace octavo::simulate

#endif  // OCTAVO_TOOLS_SIMULATE_MODEL_SPEC_H_
