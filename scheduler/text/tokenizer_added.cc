#include "scheduler/text/tokenizer_added.h"

#include "common/check.h"

namespace octavo {

void AddedTokenFinder::Add(const AddedToken& token) {
  OCTAVO_CHECK(!token.text.empty());
  uint32_t node = 0;
  for (const char byte : token.text) {
    const auto [edge, inserted] =
        edges_.try_emplace(EdgeKey(node, byte), static_cast<uint32_t>(nodes_.size()));
    node = edge->second;
    if (inserted) nodes_.emplace_back();
    OCTAVO_CHECK(nodes_.size() <= (size_t{1} << 24));
  }
  first_bytes_.set(static_cast<unsigned char>(token.text[0]));
  if (nodes_[node].id < 0) nodes_[node] = {token.id, token.special};
}

std::optional<AddedTokenFinder::Match> AddedTokenFinder::Find(absl::string_view text, size_t from,
                                                              size_t until,
                                                              size_t special_end) const {
  for (size_t begin = from; begin < until; ++begin) {
    if (!first_bytes_.test(static_cast<unsigned char>(text[begin]))) continue;
    std::optional<Match> longest;
    uint32_t node = 0;
    for (size_t end = begin; end < text.size();) {
      const auto edge = edges_.find(EdgeKey(node, text[end]));
      if (edge == edges_.end()) break;
      node = edge->second;
      ++end;
      if (nodes_[node].id >= 0 && (!nodes_[node].special || end <= special_end)) {
        longest = {begin, end, nodes_[node].id};
      }
    }
    if (longest) return longest;
  }
  return std::nullopt;
}

}  // namespace octavo
