// Byte-pair encoding over characters by the scores of what a merge gives, as SentencePiece's BPE
// models do it (bpe_model.cc), with single bytes for characters outside the vocabulary.
#ifndef OCTAVO_SCHEDULER_TEXT_PIECE_BPE_H_
#define OCTAVO_SCHEDULER_TEXT_PIECE_BPE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "common/ids.h"

namespace octavo {

// Immutable; safe to use from any thread.
class PieceBpe {
 public:
  static constexpr TokenId kNoToken = -1;

  struct Piece {
    absl::string_view bytes;  // not empty
    TokenId id = 0;
    float score = 0;  // of merging two neighbours into it; -infinity: never, NaN counts as that
  };

  // Working memory of one caller, kept between calls so that a word costs no allocation.
  class Scratch {
    friend class PieceBpe;
    struct Symbol {
      uint32_t begin;
      uint32_t length;   // 0: merged into the symbol before it
      int32_t previous;  // index of a symbol, or -1
      int32_t next;      // index of a symbol, or -1
    };
    struct Merge {
      float score;
      int32_t left;
      int32_t right;
      uint32_t length;  // of the result; another than the symbols' now: outdated
    };
    std::vector<Symbol> symbols_;
    std::vector<Merge> queue_;  // max-heap by score, the leftmost first on ties
  };

  // Of two pieces with the same bytes the first counts. `byte_tokens[b]` stands for byte b of a
  // character without a piece; kNoToken: `unknown`, or nothing when that is kNoToken too.
  // REQUIRES: the bytes that pieces point to outlive this.
  PieceBpe(const std::vector<Piece>& pieces, const std::array<TokenId, 256>& byte_tokens,
           TokenId unknown);

  // Appends the tokens of `text`: the neighbours whose concatenation has the highest score are
  // merged first, the leftmost on ties. O(n log n). REQUIRES: UTF-8, fewer than 2^31 bytes.
  void Encode(absl::string_view text, Scratch* scratch, std::vector<TokenId>* out) const;

 private:
  struct Target {
    TokenId id = kNoToken;
    float score = 0;
  };

  // Between two spans no merge is possible.
  void EncodeSpan(absl::string_view text, Scratch* scratch, std::vector<TokenId>* out) const;
  void PushMerge(absl::string_view text, int32_t left, int32_t right, Scratch* scratch) const;
  void AppendSymbol(absl::string_view bytes, std::vector<TokenId>* out) const;

  absl::flat_hash_map<absl::string_view, Target> pieces_;
  std::array<TokenId, 256> byte_tokens_;
  TokenId unknown_;
  size_t longest_ = 0;  // piece, in bytes
  // No piece has a space behind another character, as where words were trained one by one: then a
  // text can be cut before every space that follows another character.
  bool spaces_lead_ = true;
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_TEXT_PIECE_BPE_H_
