// Raw tokenizer data as a checkpoint stores it; scheduler/text builds the tokenizer from it.
#ifndef OCTAVO_COMMON_CHECKPOINT_TOKENIZER_SPEC_H_
#define OCTAVO_COMMON_CHECKPOINT_TOKENIZER_SPEC_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/ids.h"

namespace octavo {

// One pass over the pieces that the pass before left; each match becomes a piece of its own, and so
// does each stretch between matches.
struct PreTokenizerPass {
  std::string pattern;  // PCRE2 syntax with Unicode properties
};

struct AddedToken {
  TokenId id = 0;
  std::string text;     // UTF-8, as it appears in text
  bool special = true;  // found only when special tokens are asked for, hidden when decoding
};

// Byte-level BPE (GPT-2 alphabet).
struct TokenizerSpec {
  // Token strings in the byte-level alphabet; index = id; an empty string is an unused id.
  std::vector<std::string> tokens;
  std::vector<std::pair<std::string, std::string>> merges;  // rank = index
  std::vector<AddedToken> added;
  // Either the name that GGUF's tokenizer.ggml.pre gives ("gpt-2", "llama-bpe", "qwen2", "smollm",
  // ...), or, from tokenizer.json, the passes themselves. A name wins when both are set.
  std::string pre_name;
  std::vector<PreTokenizerPass> passes;
  bool normalize_nfc = false;
  bool ignore_merges = false;  // a piece that is a token as a whole is that token
  bool add_bos = false;
  std::optional<TokenId> bos_id;
  std::vector<TokenId> eos_ids;  // generation ends at any of these
  std::string chat_template;     // Jinja source; empty when the checkpoint has none
};

}  // namespace octavo

#endif  // OCTAVO_COMMON_CHECKPOINT_TOKENIZER_SPEC_H_
