#include "common/model_shape.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace octavo {
namespace {

// From each model's config.json.
const std::vector<ModelShape>& Shapes() {
  static const std::vector<ModelShape>* const shapes = new std::vector<ModelShape>{
      {.name = "llama-3-8b",
       .layers = 32,
       .hidden = 4096,
       .heads = 32,
       .kv_heads = 8,
       .head_dim = 128,
       .ffn = 14336,
       .vocab = 128256,
       .max_positions = 8192,
       .rope_theta = 500000},
      {.name = "llama-3-70b",
       .layers = 80,
       .hidden = 8192,
       .heads = 64,
       .kv_heads = 8,
       .head_dim = 128,
       .ffn = 28672,
       .vocab = 128256,
       .max_positions = 8192,
       .rope_theta = 500000},
      {.name = "opt-13b",
       .layers = 40,
       .hidden = 5120,
       .heads = 40,
       .kv_heads = 40,
       .head_dim = 128,
       .ffn = 20480,
       .vocab = 50272,
       .gated_ffn = false,
       .tied_embeddings = true,
       .max_positions = 2048},
      {.name = "smollm2-135m",
       .layers = 30,
       .hidden = 576,
       .heads = 9,
       .kv_heads = 3,
       .head_dim = 64,
       .ffn = 1536,
       .vocab = 49152,
       .tied_embeddings = true,
       .max_positions = 8192,
       .rope_theta = 100000},
  };
  return *shapes;
}

}  // namespace

absl::StatusOr<ModelShape> FindModelShape(absl::string_view name) {
  for (const ModelShape& shape : Shapes()) {
    if (shape.name == name) return shape;
  }
  return absl::NotFoundError(absl::StrCat("there is no model preset \"", name, "\"; there are ",
                                          absl::StrJoin(ModelShapeNames(), ", ")));
}

std::vector<std::string> ModelShapeNames() {
  std::vector<std::string> names;
  for (const ModelShape& shape : Shapes()) names.push_back(shape.name);
  return names;
}

}  // namespace octavo
