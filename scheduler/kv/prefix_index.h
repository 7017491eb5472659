// Finds the block that holds given tokens after a given prefix.
#ifndef OCTAVO_SCHEDULER_KV_PREFIX_INDEX_H_
#define OCTAVO_SCHEDULER_KV_PREFIX_INDEX_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/ids.h"
#include "scheduler/kv/block_hash.h"

namespace octavo {

// One publication of a block. Serials are never used twice, so a reference to a block that was lent
// again since is seen to be dead.
struct PrefixRef {
  BlockId block = kPaddingBlock;
  uint64_t serial = 0;  // 0: none; as a parent: the root
  friend bool operator==(const PrefixRef&, const PrefixRef&) = default;
};

// An entry keeps the tokens of its block, its root and which publication its parent is. A digest
// only says where to look: a hit is confirmed by comparing all three, so by induction the whole
// prefix and its scope are equal, and a collision of digests costs a hit, never a wrong block
// (kv.3). Nothing iterates over the hash map. Allocates only when constructed.
class PrefixIndex {
 public:
  PrefixIndex(int64_t num_blocks, int32_t block_size);

  // serial 0 when there is none. REQUIRES: `tokens` are one block's.
  PrefixRef Find(const BlockDigest& digest, const BlockDigest& root, PrefixRef parent,
                 std::span<const TokenId> tokens) const;
  // Enters `block`, unless the index has this content in another block: then that one's reference
  // is returned. Whatever else the digest named leaves the index: its block, or the padding block
  // when there was none, is `displaced`. REQUIRES: `parent` is alive or the root; `block` is lent.
  PrefixRef Publish(BlockId block, const BlockDigest& digest, const BlockDigest& root,
                    PrefixRef parent, std::span<const TokenId> tokens, BlockId* displaced);
  bool Contains(BlockId block) const { return entries_[block].serial != 0; }
  // Still the same publication?
  bool Alive(PrefixRef ref) const {
    return ref.serial != 0 && entries_[ref.block].serial == ref.serial;
  }
  // The block is about to be lent: its content ends. REQUIRES: Contains(block).
  void Remove(BlockId block);
  void Clear();
  int64_t size() const { return static_cast<int64_t>(by_digest_.size()); }

  // Ends the process unless map and entries agree.
  void CheckInvariants() const;

 private:
  struct Entry {
    BlockDigest digest;
    BlockDigest root;
    uint64_t serial = 0;  // 0: not in the index
    uint64_t parent_serial = 0;
  };

  bool Holds(BlockId block, const BlockDigest& root, PrefixRef parent,
             std::span<const TokenId> tokens) const;

  const int32_t block_size_;
  uint64_t next_serial_ = 1;
  std::vector<Entry> entries_;   // [num_blocks + 1], by block
  std::vector<TokenId> tokens_;  // [num_blocks + 1, block_size], by block
  absl::flat_hash_map<BlockDigest, BlockId> by_digest_;
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_KV_PREFIX_INDEX_H_
