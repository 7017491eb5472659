// Finds the tokens that stand in text as literals ("<|im_end|>"), outside byte-pair encoding.
#ifndef OCTAVO_SCHEDULER_TEXT_TOKENIZER_ADDED_H_
#define OCTAVO_SCHEDULER_TEXT_TOKENIZER_ADDED_H_

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "common/checkpoint/tokenizer_spec.h"
#include "common/ids.h"

namespace octavo {

// A trie over the literals. Immutable after Add; safe to use from any thread then.
class AddedTokenFinder {
 public:
  struct Match {
    size_t begin = 0;
    size_t end = 0;
    TokenId id = 0;
  };

  // Of two tokens with the same text the first counts.
  // REQUIRES: text not empty; all texts together under 16 MiB.
  void Add(const AddedToken& token);

  // The leftmost match that starts in [from, until), the longest where several start. A special
  // token counts only when it ends at or before `special_end`.
  std::optional<Match> Find(absl::string_view text, size_t from, size_t until,
                            size_t special_end) const;

 private:
  struct Node {
    TokenId id = -1;  // of the literal that ends here
    bool special = false;
  };

  static uint32_t EdgeKey(uint32_t node, char byte) {
    return node << 8 | static_cast<unsigned char>(byte);
  }

  std::vector<Node> nodes_{1};
  absl::flat_hash_map<uint32_t, uint32_t> edges_;
  std::bitset<256> first_bytes_;
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_TEXT_TOKENIZER_ADDED_H_
