#include "tools/simulate/model_spec.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "tools/simulate/spec_reader.h"

namespace octavo::simulate {
namespace {

// From each model's config.json.
const std::vector<ModelSpec>& Presets() {
  static const std::vector<ModelSpec>* const presets = new std::vector<ModelSpec>{
      {.name = "llama-3-8b",
       .layers = 32,
       .hidden = 4096,
       .heads = 32,
       .kv_heads = 8,
       .head_dim = 128,
       .ffn = 14336,
       .vocab = 128256},
      {.name = "opt-13b",
       .layers = 40,
       .hidden = 5120,
       .heads = 40,
       .kv_heads = 40,
       .head_dim = 128,
       .ffn = 20480,
       .vocab = 50272,
       .gated_ffn = false,
       .tied_embeddings = true},
      // Q4_1 layers and a Q8_0 embedding, as in SmolLM2-135M-Instruct.Q4_1.gguf.
      {.name = "smollm2-135m",
       .layers = 30,
       .hidden = 576,
       .heads = 9,
       .kv_heads = 3,
       .head_dim = 64,
       .ffn = 1536,
       .vocab = 49152,
       .tied_embeddings = true,
       .weight_bytes = 20.0 / 32,
       .head_bytes = 34.0 / 32},
  };
  return *presets;
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
  for (const ModelSpec& preset : Presets()) {
    if (preset.name == name) return preset;
  }
  return absl::NotFoundError(absl::StrCat("there is no model preset \"", name, "\"; there are ",
                                          absl::StrJoin(ModelPresetNames(), ", ")));
}

std::vector<std::string> ModelPresetNames() {
  std::vector<std::string> names;
  for (const ModelSpec& preset : Presets()) names.push_back(preset.name);
  return names;
}

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
