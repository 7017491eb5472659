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

enum class TokenizerModel {
  kByteLevel,  // BPE over bytes, merged by rank: GPT-2
  kPieces,     // BPE over characters, merged by the score of what comes out: SentencePiece
};

// Where kPieces puts a space that the text does not have.
enum class SpacePrefix {
  kNone,
  kFirst,  // before the text, unless it starts with one or with an added token
  kEach,   // before each stretch of text between added tokens
};

struct TokenizerSpec {
  TokenizerModel model = TokenizerModel::kByteLevel;
  // Token strings; index = id; an empty string is an unused id. In the byte-level alphabet of
  // GPT-2, or as pieces in which U+2581 stands for a space.
  std::vector<std::string> tokens;
  std::vector<std::pair<std::string, std::string>> merges;  // kByteLevel; rank = index
  // kPieces: per token, higher merges first; -infinity for what no merge gives.
  std::vector<float> scores;
  std::vector<std::pair<uint8_t, TokenId>> byte_tokens;  // kPieces: bytes of other characters
  std::optional<TokenId> unknown_id;                     // kPieces: for bytes without a token
  SpacePrefix space_prefix = SpacePrefix::kNone;         // kPieces
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
