#include "scheduler/text/piece_bpe.h"

#include <algorithm>
#include <cmath>

#include "scheduler/text/utf8.h"

namespace octavo {
namespace {

bool HasSpaceBehindOther(absl::string_view bytes) {
  for (size_t i = 1; i < bytes.size(); ++i)
    if (bytes[i] == ' ' && bytes[i - 1] != ' ') return true;
  return false;
}

}  // namespace

PieceBpe::PieceBpe(const std::vector<Piece>& pieces, const std::array<TokenId, 256>& byte_tokens,
                   TokenId unknown)
    : byte_tokens_(byte_tokens), unknown_(unknown) {
  pieces_.reserve(pieces.size());
  for (const Piece& piece : pieces) {
    pieces_.try_emplace(piece.bytes, Target{piece.id, piece.score});
    longest_ = std::max(longest_, piece.bytes.size());
    spaces_lead_ = spaces_lead_ && !HasSpaceBehindOther(piece.bytes);
  }
}

void PieceBpe::Encode(absl::string_view text, Scratch* scratch, std::vector<TokenId>* out) const {
  if (!spaces_lead_) return EncodeSpan(text, scratch, out);
  size_t begin = 0;
  for (size_t i = 1; i < text.size(); ++i) {
    if (text[i] != ' ' || text[i - 1] == ' ') continue;
    EncodeSpan(text.substr(begin, i - begin), scratch, out);
    begin = i;
  }
  EncodeSpan(text.substr(begin), scratch, out);
}

void PieceBpe::PushMerge(absl::string_view text, int32_t left, int32_t right,
                         Scratch* scratch) const {
  if (left < 0 || right < 0) return;
  const Scratch::Symbol& first = scratch->symbols_[static_cast<size_t>(left)];
  const uint32_t length = first.length + scratch->symbols_[static_cast<size_t>(right)].length;
  if (length > longest_) return;
  const auto found = pieces_.find(text.substr(first.begin, length));
  // A score that is no number compares as false.
  if (found == pieces_.end() || !(found->second.score > -HUGE_VALF)) return;
  scratch->queue_.push_back({found->second.score, left, right, length});
}

void PieceBpe::EncodeSpan(absl::string_view text, Scratch* scratch,
                          std::vector<TokenId>* out) const {
  std::vector<Scratch::Symbol>& symbols = scratch->symbols_;
  std::vector<Scratch::Merge>& queue = scratch->queue_;
  symbols.clear();
  queue.clear();
  for (size_t i = 0; i < text.size();) {
    const size_t length = std::min(Utf8SequenceLength(text[i]), text.size() - i);
    const auto index = static_cast<int32_t>(symbols.size());
    symbols.push_back(
        {static_cast<uint32_t>(i), static_cast<uint32_t>(length), index - 1, index + 1});
    i += length;
  }
  if (symbols.empty()) return;
  symbols.back().next = -1;

  const auto after = [](const Scratch::Merge& a, const Scratch::Merge& b) {
    return a.score != b.score ? a.score < b.score : a.left > b.left;
  };
  for (const Scratch::Symbol& symbol : symbols) {
    PushMerge(text, symbol.previous, symbol.previous + 1, scratch);
  }
  std::make_heap(queue.begin(), queue.end(), after);
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), after);
    const Scratch::Merge best = queue.back();
    queue.pop_back();
    Scratch::Symbol& left = symbols[static_cast<size_t>(best.left)];
    Scratch::Symbol& right = symbols[static_cast<size_t>(best.right)];
    if (left.length == 0 || right.length == 0 || left.length + right.length != best.length) {
      continue;
    }
    left.length = best.length;
    right.length = 0;
    left.next = right.next;
    if (left.next >= 0) symbols[static_cast<size_t>(left.next)].previous = best.left;
    for (const auto& [first, second] :
         {std::pair(left.previous, best.left), std::pair(best.left, left.next)}) {
      const size_t before = queue.size();
      PushMerge(text, first, second, scratch);
      if (queue.size() > before) std::push_heap(queue.begin(), queue.end(), after);
    }
  }
  // The first symbol stays: merges take the right one away.
  for (int32_t index = 0; index >= 0; index = symbols[static_cast<size_t>(index)].next) {
    const Scratch::Symbol& symbol = symbols[static_cast<size_t>(index)];
    AppendSymbol(text.substr(symbol.begin, symbol.length), out);
  }
}

void PieceBpe::AppendSymbol(absl::string_view bytes, std::vector<TokenId>* out) const {
  const auto found = pieces_.find(bytes);
  if (found != pieces_.end()) {
    out->push_back(found->second.id);
    return;
  }
  for (const char byte : bytes) {
    const TokenId own = byte_tokens_[static_cast<unsigned char>(byte)];
    const TokenId id = own != kNoToken ? own : unknown_;
    if (id != kNoToken) out->push_back(id);
  }
}

}  // namespace octavo
