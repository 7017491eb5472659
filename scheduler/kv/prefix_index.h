// Finds the blocks that hold given tokens after a given prefix.
#ifndef OCTAVO_SCHEDULER_KV_PREFIX_INDEX_H_
#define OCTAVO_SCHEDULER_KV_PREFIX_INDEX_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/ids.h"
#include "scheduler/kv/block_hash.h"

namespace octavo {

// One publication of a row: of the block of its first group, with which it lives and dies. Serials
// are never used twice, so a reference to a block that was lent again since is seen to be dead.
struct PrefixRef {
  BlockId block = kPaddingBlock;
  uint64_t serial = 0;  // 0: none; as a parent: the root
  friend bool operator==(const PrefixRef&, const PrefixRef&) = default;
};

// A row is the blocks that the groups of layers have for the same tokens (kv.7): one of the first
// group, and those of the others that nobody has taken since. An entry keeps the tokens of its row,
// its root and which publication its parent is. A digest only says where to look: a hit is
// confirmed by comparing all three, so by induction the whole prefix and its scope are equal, and a
// collision of digests costs a hit, never a wrong block (kv.3). Nothing iterates over the hash map.
// Allocates only when constructed.
class PrefixIndex {
 public:
  PrefixIndex(int64_t num_blocks, int32_t block_size, int32_t num_groups = 1);

  // serial 0 when there is none. REQUIRES: `tokens` are one block's.
  PrefixRef Find(const BlockDigest& digest, const BlockDigest& root, PrefixRef parent,
                 std::span<const TokenId> tokens) const;
  // Enters a row, [num_groups] blocks, the padding block where a group has none. When the index has
  // this content already, that row's reference is returned, and the row gets the blocks that it
  // lacks. Whatever else the digest named leaves the index: `displaced` gets its blocks. REQUIRES:
  // `parent` is alive or the root; the blocks are lent, the first is one.
  PrefixRef Publish(std::span<const BlockId> row, const BlockDigest& digest,
                    const BlockDigest& root, PrefixRef parent, std::span<const TokenId> tokens,
                    std::vector<BlockId>* displaced);
  bool Contains(BlockId block) const {
    return entries_[block].serial != 0 || (num_groups_ > 1 && heads_[block] != kPaddingBlock);
  }
  // Still the same publication?
  bool Alive(PrefixRef ref) const {
    return ref.serial != 0 && entries_[ref.block].serial == ref.serial;
  }
  // Of an alive row; the padding block when the group has none.
  BlockId BlockOf(PrefixRef ref, int32_t group) const {
    return group == 0 ? ref.block : others_[OtherAt(ref.block, group)];
  }
  // The block is about to be lent: its content ends. The row of a first group's block leaves the
  // index: `displaced` gets its other blocks. REQUIRES: Contains(block).
  void Remove(BlockId block, std::vector<BlockId>* displaced);
  // The block may be removed soon: where the index has its digest is far in memory.
  void ExpectRemoval(BlockId block) const { by_digest_.prefetch(entries_[block].digest); }
  void Clear();
  int64_t num_blocks() const { return num_entered_; }

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
  // Of the block of a group but the first, in the row of block `head`.
  size_t OtherAt(BlockId head, int32_t group) const {
    return static_cast<size_t>(head) * static_cast<size_t>(num_groups_ - 1) +
           static_cast<size_t>(group - 1);
  }
  void AddOthers(BlockId head, std::span<const BlockId> row);
  // Takes the block out of whatever row it is in.
  void Leave(BlockId block, std::vector<BlockId>* displaced);

  const int32_t block_size_;
  const int32_t num_groups_;
  uint64_t next_serial_ = 1;
  int64_t num_entered_ = 0;      // blocks in the index
  std::vector<Entry> entries_;   // [num_blocks + 1], by block of the first group
  std::vector<TokenId> tokens_;  // [num_blocks + 1, block_size], the same
  std::vector<BlockId> others_;  // [num_blocks + 1, num_groups - 1], the same
  std::vector<BlockId> heads_;   // [num_blocks + 1], by block of another group: its row's first
  absl::flat_hash_map<BlockDigest, BlockId> by_digest_;
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_KV_PREFIX_INDEX_H_
