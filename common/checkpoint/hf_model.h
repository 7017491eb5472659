// What the JSON files of a Hugging Face folder say about the model and its tokenizer.
#ifndef OCTAVO_COMMON_CHECKPOINT_HF_MODEL_H_
#define OCTAVO_COMMON_CHECKPOINT_HF_MODEL_H_

#include <optional>
#include <string>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/checkpoint/json_reader.h"
#include "common/checkpoint/model_config.h"
#include "common/checkpoint/tokenizer_spec.h"

namespace octavo {

// The texts of the files; nullopt for one that the folder lacks.
struct HfTexts {
  absl::string_view config;
  std::optional<absl::string_view> tokenizer;          // tokenizer.json
  std::optional<absl::string_view> tokenizer_config;   // tokenizer_config.json
  std::optional<absl::string_view> generation_config;  // generation_config.json
  std::optional<absl::string_view> chat_template;      // chat_template.jinja
};

struct HfConfig {
  ModelConfig model;       // tied_embeddings is the file's word, false when it has none
  bool says_tied = false;  // whether it has
};

// model_type llama, mistral, qwen2, qwen3, gemma2 and gemma3_text; UNIMPLEMENTED by name for others
// and for what these would need beyond the decoder graph. Validated. Defaults are those of the
// transformers classes.
absl::StatusOr<HfConfig> ReadHfConfig(absl::string_view text, absl::string_view path);

// Rotary embeddings of `config`, whose family, head_dim and max_positions are read.
absl::Status ReadHfRope(const JsonObject& top, ModelConfig* config);

// Byte-level BPE and BPE with byte_fallback; UNIMPLEMENTED by name for other tokenizers. No id
// reaches `vocab_size`. A folder without tokenizer.json gives a spec without tokens: enough for a
// worker, which needs none.
absl::StatusOr<TokenizerSpec> ReadHfTokenizer(const HfTexts& texts, int32_t vocab_size,
                                              absl::string_view folder);

// The normalizer, pre_tokenizer, post_processor and decoder of a tokenizer.json, as fields of the
// spec, whose model is known. UNIMPLEMENTED by name for what has no such form.
absl::Status ReadHfPipeline(const JsonObject& tokenizer, TokenizerSpec* spec);
absl::Status ReadHfPiecesPipeline(const JsonObject& tokenizer, TokenizerSpec* spec);

// Makes a spec with tokens and merges, `ids` by token, one of pieces with scores.
absl::Status ReadHfPieces(const JsonObject& model,
                          const std::unordered_map<std::string, TokenId>& ids, TokenizerSpec* spec);

}  // namespace octavo

#endif  // OCTAVO_COMMON_CHECKPOINT_HF_MODEL_H_
