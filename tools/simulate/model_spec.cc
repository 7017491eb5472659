#include "tools/simulate/model_spec.h"

#include "common/model_shape.h"
#include "common/status_macros.h"
#include "tools/simulate/spec_reader.h"

namespace octavo::simulate {
namespace {

ModelSpec SpecOf(const ModelShape& shape) {
  ModelSpec spec;
  spec.name = shape.name;
  spec.layers = shape.layers;
  spec.hidden = shape.hidden;
  spec.heads = shape.heads;
  spec.kv_heads = shape.kv_heads;
  spec.head_dim = shape.head_dim;
  spec.ffn = shape.ffn;
  spec.vocab = shape.vocab;
  spec.gated_ffn = shape.gated_ffn;
  spec.tied_embeddings = shape.tied_embeddings;
  return spec;
}

}  // namespace

int64_t ModelSpec::layer_weights() const {
  const int64_t attention = int64_t{hidden} * head_dim * (2 * heads + 2 * kv_heads);
  const int64_t feed_forward = int64_t{hidden} * ffn * (gated_ffn ? 3 : 2);
  return layers * (attention + feed_forward);
}

double ModelSpec::stored_bytes() const {
  return streamed_bytes() +
         (tied_embeddings ? 0 : static_cast<double>(head_weights()) * head_bytes);
}

double ModelSpec::streamed_bytes() const {
  return static_cast<double>(layer_weights()) * weight_bytes +
         static_cast<double>(head_weights()) * head_bytes;
}

absl::StatusOr<ModelSpec> ModelPreset(absl::string_view name) {
  OCTAVO_ASSIGN_OR_RETURN(const ModelShape shape, FindModelShape(name));
  ModelSpec spec = SpecOf(shape);
  if (name == "smollm2-135m") {
    // Q4_1 layers and a Q8_0 embedding, as in SmolLM2-135M-Instruct.Q4_1.gguf.
    spec.weight_bytes = 20.0 / 32;
    spec.head_bytes = 34.0 / 32;
  }
  return spec;
}

std::vector<std::string> ModelPresetNames() { return ModelShapeNames(); }

absl::StatusOr<ModelSpec> ParseModel(absl::string_view json) {
  SpecReader reader("the model", json);
  ModelSpec model{.name = "model"};
  reader.Text("name", &model.name);
  reader.Integer("num_hidden_layers", true, &model.layers);
  reader.Integer("hidden_size", true, &model.hidden);
  reader.Integer("num_attention_heads", true, &model.heads);
  reader.Integer("intermediate_size", true, &model.ffn);
  reader.Integer("vocab_size", true, &model.vocab);
  OCTAVO_RETURN_IF_ERROR(reader.status());
  model.kv_heads = model.heads;
  model.head_dim = model.hidden / model.heads;
  reader.Integer("num_key_value_heads", false, &model.kv_heads);
  reader.Integer("head_dim", false, &model.head_dim);
  reader.Boolean("tie_word_embeddings", &model.tied_embeddings);
  reader.Boolean("gated_ffn", &model.gated_ffn);
  reader.Number("weight_bytes", false, 0.05, 8, &model.weight_bytes);
  model.head_bytes = model.weight_bytes;
  reader.Number("head_bytes", false, 0.05, 8, &model.head_bytes);
  OCTAVO_RETURN_IF_ERROR(reader.status());
  return model;
}

absl::StatusOr<ModelSpec> ReadModelFile(absl::string_view path) {
  OCTAVO_ASSIGN_OR_RETURN(const std::string json, ReadWholeFile(path));
  return ParseModel(json);
}

}  // namespace octavo::simulate
