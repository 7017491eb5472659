// Text to token ids and back: byte-level BPE as in GPT-2, Llama 3, Qwen 2 and SmolLM, and the BPE
// of SentencePiece as in Gemma, Llama 2 and Mistral.
//
//   OCTAVO_ASSIGN_OR_RETURN(auto tokenizer, Tokenizer::Create(checkpoint->tokenizer()));
//   OCTAVO_ASSIGN_OR_RETURN(auto ids, tokenizer->Encode("Hello", /*parse_special=*/false));
#ifndef OCTAVO_SCHEDULER_TEXT_TOKENIZER_H_
#define OCTAVO_SCHEDULER_TEXT_TOKENIZER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/checkpoint/tokenizer_spec.h"
#include "common/ids.h"
#include "scheduler/text/bpe.h"
#include "scheduler/text/piece_bpe.h"
#include "scheduler/text/pretokenizer.h"
#include "scheduler/text/tokenizer_added.h"

namespace octavo {

// A stretch of text whose special tokens count or do not, e.g. a template's own text and the
// user's.
struct TextSegment {
  absl::string_view text;
  bool parse_special = false;
};

// Immutable; safe to use from any thread.
class Tokenizer {
 public:
  static constexpr size_t kMaxTextBytes = 16 * 1024 * 1024;
  static constexpr int32_t kMaxVocabSize = 1 << 24;

  // INVALID_ARGUMENT naming what contradicts itself: a merge of unknown tokens, an id out of range,
  // a pattern that does not compile, ...
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Create(const TokenizerSpec& spec);

  // Special tokens written out in `utf8` become their ids only with `parse_special`; otherwise they
  // are ordinary text. Added tokens that are not special are always found. Nothing is put in front
  // or behind: see add_bos(); a SentencePiece vocabulary may ask for a space (TokenizerSpec).
  // Bytes for which the vocabulary has no token are left out. SentencePiece vocabularies do not
  // tell U+2581 from a space.
  // INVALID_ARGUMENT with the byte offset when `utf8` is not UTF-8, or is over kMaxTextBytes.
  absl::StatusOr<std::vector<TokenId>> Encode(absl::string_view utf8, bool parse_special) const;

  // As Encode of the concatenation (pieces and merges cross segments as they would there), but a
  // special token is found only where it lies within consecutive segments with parse_special.
  absl::StatusOr<std::vector<TokenId>> EncodeSegments(std::span<const TextSegment> segments) const;

  // The bytes that a token stands for, which need not be UTF-8 on their own; a special token's are
  // its literal. Empty for ids that the vocabulary does not use.
  std::string TokenBytes(TokenId id) const { return std::string(BytesOf(id)); }

  // The same without a copy; valid while the tokenizer lives.
  absl::string_view BytesOf(TokenId id) const;

  bool IsSpecial(TokenId id) const {
    return id >= 0 && id < vocab_size() && special_[static_cast<size_t>(id)];
  }

  // Joins the tokens' bytes, special tokens left out with `skip_special`, and replaces each maximal
  // ill-formed subpart by U+FFFD.
  std::string Decode(std::span<const TokenId> ids, bool skip_special) const;

  // The token with exactly these bytes; an added token before others, then the lowest id.
  std::optional<TokenId> FindToken(absl::string_view bytes) const;

  const std::vector<TokenId>& eos_ids() const { return eos_ids_; }  // generation ends at any
  std::optional<TokenId> bos_id() const { return bos_id_; }
  // Whether a prompt is to start with bos_id(). Encode leaves that to the caller, since templates
  // write the token themselves.
  bool add_bos() const { return add_bos_; }
  // Ids are in [0, vocab_size). A model's output layer may be wider.
  int32_t vocab_size() const { return static_cast<int32_t>(special_.size()); }

 private:
  struct EncodeScratch {
    PreTokenizer::Scratch pretokenizer;
    Bpe::Scratch bpe;
    PieceBpe::Scratch piece_bpe;
    std::vector<absl::string_view> pieces;
  };

  Tokenizer() = default;

  absl::Status LoadTokens(const TokenizerSpec& spec);
  absl::Status LoadMerges(const TokenizerSpec& spec);
  absl::Status LoadPieces(const TokenizerSpec& spec);
  absl::Status LoadEnds(const TokenizerSpec& spec);

  // `text` without tokens that stand for themselves; `first`: nothing was before it.
  absl::Status EncodePlain(absl::string_view text, bool first, EncodeScratch* scratch,
                           std::vector<TokenId>* ids) const;
  absl::Status EncodeByteLevel(absl::string_view text, EncodeScratch* scratch,
                               std::vector<TokenId>* ids) const;

  // Token i's bytes are arena_[offsets_[i], offsets_[i + 1]).
  std::string arena_;
  std::vector<uint32_t> offsets_;
  std::vector<bool> special_;                                 // by id
  absl::flat_hash_map<absl::string_view, TokenId> by_bytes_;  // views of arena_
  std::unique_ptr<PreTokenizer> pretokenizer_;                // byte-level vocabularies
  std::unique_ptr<Bpe> bpe_;                                  // byte-level vocabularies
  std::unique_ptr<PieceBpe> piece_bpe_;                       // the others
  SpacePrefix space_prefix_ = SpacePrefix::kNone;
  AddedTokenFinder added_;
  bool normalize_nfc_ = false;
  bool ignore_merges_ = false;
  bool add_bos_ = false;
  std::optional<TokenId> bos_id_;
  std::vector<TokenId> eos_ids_;
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_TEXT_TOKENIZER_H_
