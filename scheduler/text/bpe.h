// Byte-pair encoding (Sennrich et al. 2016, section 3.2) of one piece of text, on token ids.
#ifndef OCTAVO_SCHEDULER_TEXT_BPE_H_
#define OCTAVO_SCHEDULER_TEXT_BPE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "common/ids.h"

namespace octavo {

struct BpeMerge {
  TokenId left = 0;
  TokenId right = 0;
  TokenId merged = 0;
};

// Immutable; safe to use from any thread.
class Bpe {
 public:
  static constexpr TokenId kNoToken = -1;

  // Working memory of one caller, kept between calls so that a piece costs no allocation.
  class Scratch {
    friend class Bpe;
    struct Symbol {
      TokenId id;
      int32_t previous;  // index of a symbol, or -1
      int32_t next;      // index of a symbol, or -1
      uint32_t rank;     // of merging this symbol with the next, or kNoRank
      TokenId merged;    // what that merge gives
    };
    std::vector<Symbol> symbols_;
    std::vector<uint64_t> queue_;  // min-heap of rank << 32 | index
  };

  // `byte_tokens[b]` is the token of byte b alone, or kNoToken. The rank of a merge is its index;
  // of two merges of the same pair the later one counts (as in Hugging Face tokenizers).
  // REQUIRES: ids >= 0, fewer than 2^32 - 1 merges.
  Bpe(const std::array<TokenId, 256>& byte_tokens, const std::vector<BpeMerge>& merges);

  // Appends the tokens of `piece`: the pair of lowest rank is merged first, the leftmost on ties.
  // Bytes without a token are dropped before merging, so their neighbours can merge.
  // O(n log n). REQUIRES: fewer than 2^31 bytes.
  void Encode(absl::string_view piece, Scratch* scratch, std::vector<TokenId>* out) const;

 private:
  static constexpr uint32_t kNoRank = ~uint32_t{0};

  struct Merge {
    uint32_t rank = kNoRank;
    TokenId merged = kNoToken;
  };

  static uint64_t PairKey(TokenId left, TokenId right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  // Looks up the merge of symbol `index` with its next; true when there is one.
  bool Rank(Scratch* scratch, int32_t index) const;

  std::array<TokenId, 256> byte_tokens_;
  absl::flat_hash_map<uint64_t, Merge> merges_;
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_TEXT_BPE_H_
