#include "scheduler/kv/prefix_index.h"

#include <algorithm>

#include "common/check.h"

namespace octavo {

PrefixIndex::PrefixIndex(int64_t num_blocks, int32_t block_size) : block_size_(block_size) {
  OCTAVO_CHECK(block_size > 0, "block_size=", block_size);
  entries_.resize(static_cast<size_t>(num_blocks) + 1);
  tokens_.resize(entries_.size() * static_cast<size_t>(block_size));
  // With room to spare, so that it never grows: neither when full nor for what erasing leaves.
  by_digest_.reserve(entries_.size() * 4 / 3);
}

bool PrefixIndex::Holds(BlockId block, const BlockDigest& root, PrefixRef parent,
                        std::span<const TokenId> tokens) const {
  const Entry& entry = entries_[block];
  return entry.parent_serial == parent.serial && entry.root == root &&
         std::equal(tokens.begin(), tokens.end(),
                    tokens_.begin() + static_cast<int64_t>(block) * block_size_);
}

PrefixRef PrefixIndex::Find(const BlockDigest& digest, const BlockDigest& root, PrefixRef parent,
                            std::span<const TokenId> tokens) const {
  const auto found = by_digest_.find(digest);
  if (found == by_digest_.end() || !Holds(found->second, root, parent, tokens)) return {};
  return {found->second, entries_[found->second].serial};
}

PrefixRef PrefixIndex::Publish(BlockId block, const BlockDigest& digest, const BlockDigest& root,
                               PrefixRef parent, std::span<const TokenId> tokens,
                               BlockId* displaced) {
  *displaced = kPaddingBlock;
  OCTAVO_CHECK(tokens.size() == static_cast<size_t>(block_size_), "tokens=", tokens.size());
  OCTAVO_CHECK(parent.serial == 0 || Alive(parent), "parent block=", parent.block);
  if (const PrefixRef found = Find(digest, root, parent, tokens); found.serial != 0) return found;
  // Another content of the same digest, or the same content after a parent that is gone: nobody
  // can find it any more.
  if (const auto other = by_digest_.find(digest); other != by_digest_.end()) {
    *displaced = other->second;
    Remove(*displaced);
  }
  if (Contains(block)) Remove(block);
  entries_[block] = {digest, root, next_serial_++, parent.serial};
  std::copy(tokens.begin(), tokens.end(),
            tokens_.begin() + static_cast<int64_t>(block) * block_size_);
  by_digest_.emplace(digest, block);
  return {block, entries_[block].serial};
}

void PrefixIndex::Remove(BlockId block) {
  Entry& entry = entries_[block];
  OCTAVO_CHECK(entry.serial != 0, "block ", block, " is not in the index");
  OCTAVO_CHECK(by_digest_.erase(entry.digest) == 1, "block=", block);
  entry.serial = 0;
}

void PrefixIndex::Clear() {
  for (Entry& entry : entries_) entry.serial = 0;
  by_digest_.clear();
  by_digest_.reserve(entries_.size() * 4 / 3);
}

void PrefixIndex::CheckInvariants() const {
  int64_t entered = 0;
  for (size_t block = 0; block < entries_.size(); ++block) {
    if (entries_[block].serial == 0) continue;
    ++entered;
    const auto found = by_digest_.find(entries_[block].digest);
    OCTAVO_CHECK(found != by_digest_.end() && found->second == static_cast<BlockId>(block),
                 "block=", block);
    OCTAVO_CHECK(entries_[block].serial < next_serial_, "block=", block);
  }
  OCTAVO_CHECK(entered == size() && !Contains(kPaddingBlock), "entered=", entered,
               " size=", size());
}

}  // namespace octavo
