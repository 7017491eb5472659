// What a GGUF file's metadata says about the model and its tokenizer. Keys: gguf-py's constants.py.
#ifndef OCTAVO_COMMON_CHECKPOINT_GGUF_MODEL_H_
#define OCTAVO_COMMON_CHECKPOINT_GGUF_MODEL_H_

#include "absl/status/statusor.h"
#include "common/checkpoint/gguf.h"
#include "common/checkpoint/model_config.h"
#include "common/checkpoint/tokenizer_spec.h"

namespace octavo {

// general.architecture llama (Mistral files say llama too), qwen2, qwen3, gemma2 and gemma3;
// UNIMPLEMENTED by name
// for others and for what these would need beyond the decoder graph. Validated.
absl::StatusOr<ModelConfig> ReadGgufConfig(const GgufFile& file);

// tokenizer.ggml.model gpt2 and llama; UNIMPLEMENTED by name for others. No id reaches
// `vocab_size`.
absl::StatusOr<TokenizerSpec> ReadGgufTokenizer(const GgufFile& file, int32_t vocab_size);

}  // namespace octavo

#endif  // OCTAVO_COMMON_CHECKPOINT_GGUF_MODEL_H_
