#include "scheduler/text/bpe.h"

#include <algorithm>
#include <functional>

namespace octavo {

Bpe::Bpe(const std::array<TokenId, 256>& byte_tokens, const std::vector<BpeMerge>& merges)
    : byte_tokens_(byte_tokens) {
  merges_.reserve(merges.size());
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const BpeMerge& merge = merges[rank];
    merges_[PairKey(merge.left, merge.right)] = {static_cast<uint32_t>(rank), merge.merged};
  }
}

bool Bpe::Rank(Scratch* scratch, int32_t index) const {
  Scratch::Symbol& symbol = scratch->symbols_[index];
  symbol.rank = kNoRank;
  if (symbol.next < 0) return false;
  const auto found = merges_.find(PairKey(symbol.id, scratch->symbols_[symbol.next].id));
  if (found == merges_.end()) return false;
  symbol.rank = found->second.rank;
  symbol.merged = found->second.merged;
  return true;
}

void Bpe::Encode(absl::string_view piece, Scratch* scratch, std::vector<TokenId>* out) const {
  std::vector<Scratch::Symbol>& symbols = scratch->symbols_;
  std::vector<uint64_t>& queue = scratch->queue_;
  symbols.clear();
  queue.clear();
  for (const char byte : piece) {
    const TokenId id = byte_tokens_[static_cast<unsigned char>(byte)];
    if (id == kNoToken) continue;
    const auto index = static_cast<int32_t>(symbols.size());
    symbols.push_back({id, index - 1, index + 1, kNoRank, kNoToken});
  }
  if (symbols.empty()) return;
  symbols.back().next = -1;

  const auto entry = [&](int32_t index) {
    return static_cast<uint64_t>(symbols[index].rank) << 32 | static_cast<uint32_t>(index);
  };
  for (int32_t index = 0; index < static_cast<int32_t>(symbols.size()); ++index) {
    if (Rank(scratch, index)) queue.push_back(entry(index));
  }
  std::make_heap(queue.begin(), queue.end(), std::greater<>());
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), std::greater<>());
    const uint64_t best = queue.back();
    queue.pop_back();
    const auto index = static_cast<int32_t>(best & 0x7FFFFFFF);
    Scratch::Symbol& symbol = symbols[index];
    // A rank names one pair, so an entry whose symbol changed or vanished no longer matches.
    if (symbol.rank != best >> 32) continue;
    Scratch::Symbol& eaten = symbols[symbol.next];
    symbol.id = symbol.merged;
    symbol.next = eaten.next;
    eaten.rank = kNoRank;
    if (symbol.next >= 0) symbols[symbol.next].previous = index;
    const auto push = [&](int32_t changed) {
      if (!Rank(scratch, changed)) return;
      queue.push_back(entry(changed));
      std::push_heap(queue.begin(), queue.end(), std::greater<>());
    };
    push(index);
    if (symbol.previous >= 0) push(symbol.previous);
  }
  // The first symbol is never eaten: merges eat the right one.
  for (int32_t index = 0; index >= 0; index = symbols[index].next) {
    out->push_back(symbols[index].id);
  }
}

}  // namespace octavo
