// Shapes of published models, by name: for what needs a model's sizes and not its weights, like
// simulations and models of noise (--load-format dummy).
#ifndef OCTAVO_COMMON_MODEL_SHAPE_H_
#define OCTAVO_COMMON_MODEL_SHAPE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace octavo {

struct ModelShape {
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
  int32_t max_positions = 0;
  float rope_theta = 0;  // 0: positions are learned
};

// "llama-3-8b", "llama-3-70b", "opt-13b", "smollm2-135m". NOT_FOUND lists them.
absl::StatusOr<ModelShape> FindModelShape(absl::string_view name);
std::vector<std::string> ModelShapeNames();

}  // namespace octavo

#endif  // OCTAVO_COMMON_MODEL_SHAPE_H_
