#include "scheduler/kv/prefix_index.h"

#include <algorithm>
#include <utility>

#include "common/check.h"

namespace octavo {

PrefixIndex::PrefixIndex(int64_t num_blocks, int32_t block_size, int32_t num_groups)
    : block_size_(block_size), num_groups_(num_groups) {
  OCTAVO_CHECK(block_size > 0 && num_groups > 0, "block_size=", block_size,
               " num_groups=", num_groups);
  entries_.resize(static_cast<size_t>(num_blocks) + 1);
  tokens_.resize(entries_.size() * static_cast<size_t>(block_size));
  if (num_groups > 1) {
    others_.resize(entries_.size() * static_cast<size_t>(num_groups - 1), kPaddingBlock);
    heads_.resize(entries_.size(), kPaddingBlock);
  }
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

PrefixRef PrefixIndex::Publish(std::span<const BlockId> row, const BlockDigest& digest,
                               const BlockDigest& root, PrefixRef parent,
                               std::span<const TokenId> tokens, std::vector<BlockId>* displaced) {
  OCTAVO_CHECK(tokens.size() == static_cast<size_t>(block_size_) &&
                   row.size() == static_cast<size_t>(num_groups_) && row[0] != kPaddingBlock,
               "tokens=", tokens.size(), " blocks=", row.size());
  OCTAVO_CHECK(parent.serial == 0 || Alive(parent), "parent block=", parent.block);
  if (const PrefixRef found = Find(digest, root, parent, tokens); found.serial != 0) {
    AddOthers(found.block, row);
    return found;
  }
  // Another content of the same digest, or the same content after a parent that is gone: nobody
  // can find it any more.
  if (const auto other = by_digest_.find(digest); other != by_digest_.end()) {
    Leave(other->second, displaced);
  }
  const BlockId head = row[0];
  if (Contains(head)) Leave(head, displaced);
  entries_[head] = {digest, root, next_serial_++, parent.serial};
  std::copy(tokens.begin(), tokens.end(),
            tokens_.begin() + static_cast<int64_t>(head) * block_size_);
  by_digest_.emplace(digest, head);
  ++num_entered_;
  for (const BlockId block : row.subspan(1)) {
    if (block != kPaddingBlock && Contains(block)) Leave(block, displaced);
  }
  AddOthers(head, row);
  return {head, entries_[head].serial};
}

void PrefixIndex::AddOthers(BlockId head, std::span<const BlockId> row) {
  for (int32_t group = 1; group < num_groups_; ++group) {
    const BlockId block = row[static_cast<size_t>(group)];
    BlockId& place = others_[OtherAt(head, group)];
    if (block == kPaddingBlock || place != kPaddingBlock || Contains(block)) continue;
    place = block;
    heads_[block] = head;
    ++num_entered_;
  }
}

void PrefixIndex::Remove(BlockId block, std::vector<BlockId>* displaced) {
  const size_t before = displaced->size();
  Leave(block, displaced);
  OCTAVO_CHECK(displaced->size() > before && (*displaced)[before] == block, "block=", block);
  displaced->erase(displaced->begin() + static_cast<int64_t>(before));
}

void PrefixIndex::Leave(BlockId block, std::vector<BlockId>* displaced) {
  OCTAVO_CHECK(Contains(block), "block ", block, " is not in the index");
  displaced->push_back(block);
  --num_entered_;
  Entry& entry = entries_[block];
  if (entry.serial == 0) {
    const BlockId head = std::exchange(heads_[block], kPaddingBlock);
    for (int32_t group = 1; group < num_groups_; ++group) {
      BlockId& place = others_[OtherAt(head, group)];
      if (place == block) place = kPaddingBlock;
    }
    return;
  }
  OCTAVO_CHECK(by_digest_.erase(entry.digest) == 1, "block=", block);
  entry.serial = 0;
  for (int32_t group = 1; group < num_groups_; ++group) {
    const BlockId other = std::exchange(others_[OtherAt(block, group)], kPaddingBlock);
    if (other == kPaddingBlock) continue;
    heads_[other] = kPaddingBlock;
    displaced->push_back(other);
    --num_entered_;
  }
}

void PrefixIndex::Clear() {
  for (Entry& entry : entries_) entry.serial = 0;
  std::fill(others_.begin(), others_.end(), kPaddingBlock);
  std::fill(heads_.begin(), heads_.end(), kPaddingBlock);
  num_entered_ = 0;
  by_digest_.clear();
  by_digest_.reserve(entries_.size() * 4 / 3);
}

void PrefixIndex::CheckInvariants() const {
  int64_t rows = 0;
  int64_t blocks = 0;
  for (size_t block = 0; block < entries_.size(); ++block) {
    const BlockId id = static_cast<BlockId>(block);
    blocks += Contains(id) ? 1 : 0;
    if (num_groups_ > 1 && heads_[block] != kPaddingBlock) {
      OCTAVO_CHECK(entries_[block].serial == 0 && entries_[heads_[block]].serial != 0,
                   "block=", block);
    }
    if (entries_[block].serial == 0) continue;
    ++rows;
    const auto found = by_digest_.find(entries_[block].digest);
    OCTAVO_CHECK(found != by_digest_.end() && found->second == id, "block=", block);
    OCTAVO_CHECK(entries_[block].serial < next_serial_, "block=", block);
    for (int32_t group = 1; group < num_groups_; ++group) {
      const BlockId other = others_[OtherAt(id, group)];
      OCTAVO_CHECK(other == kPaddingBlock || heads_[other] == id, "block=", block,
                   " group=", group);
    }
  }
  OCTAVO_CHECK(rows == static_cast<int64_t>(by_digest_.size()) && blocks == num_entered_ &&
                   !Contains(kPaddingBlock),
               "rows=", rows, " blocks=", blocks, " entered=", num_entered_);
}

}  // namespace octavo
