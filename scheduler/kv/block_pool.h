// Which physical blocks are lent, to how many tables, and in which order the free ones are reused.
#ifndef OCTAVO_SCHEDULER_KV_BLOCK_POOL_H_
#define OCTAVO_SCHEDULER_KV_BLOCK_POOL_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "common/check.h"
#include "common/ids.h"

namespace octavo {

// Blocks 1..num_blocks; block 0 is padding and never lent (kv.1). A block is free exactly when its
// count is 0. Free blocks form a list, least recently freed first, threaded through the blocks, so
// any of them can be taken out of the middle in O(1). Allocates only when constructed.
class BlockPool {
 public:
  // REQUIRES: 0 <= num_blocks < 2^31 - 1.
  explicit BlockPool(int64_t num_blocks);

  int64_t num_blocks() const { return num_blocks_; }
  int64_t num_free() const { return num_free_; }
  // Blocks held by two tables or more.
  int64_t num_shared() const { return num_shared_; }
  // Blocks that the tables would hold more if nothing were shared.
  int64_t num_saved() const { return num_references_ - (num_blocks_ - num_free_); }
  // Tables that hold the block.
  int32_t ref_count(BlockId block) const { return At(block).ref_count; }
  // How often it was lent. Its content is good as long as this stays the same (kv.5).
  uint64_t lendings(BlockId block) const { return At(block).lendings; }

  // What Lend gives next; the padding block when none is free.
  BlockId next_free() const { return blocks_[kPaddingBlock].next; }
  // The least recently freed block, now with count 1; nullopt when none is free.
  std::optional<BlockId> Lend();
  // The first of `count` free blocks with ids in a row, the lowest there are; nullopt when free
  // blocks are too few or lie apart. REQUIRES: count >= 1.
  std::optional<BlockId> FindRun(int64_t count) const;
  // A free block that the caller chose, now with count 1.
  void LendThis(BlockId block);
  // One more table holds the block. A free block, whose content is still good (kv.5), leaves the
  // free list.
  void Share(BlockId block);
  // One table fewer. True when that was the last: the block is then the last to be reused, or the
  // next one when its content is `worthless`.
  // Releasing a free block is a bug and ends the process.
  bool Release(BlockId block, bool worthless = false);

  // Ends the process unless the free list and the counts agree (kv.1).
  void CheckInvariants() const;

 private:
  struct Block {
    int32_t ref_count = 0;
    BlockId next = kPaddingBlock;  // meaningful while free; the padding block is the list's anchor
    BlockId previous = kPaddingBlock;
    uint64_t lendings = 0;
  };

  const Block& At(BlockId block) const {
    OCTAVO_CHECK(block > kPaddingBlock && block <= num_blocks_, "block=", block,
                 " num_blocks=", num_blocks_);
    return blocks_[block];
  }
  Block& At(BlockId block) { return const_cast<Block&>(std::as_const(*this).At(block)); }
  void Unlink(BlockId block);

  const int64_t num_blocks_;
  int64_t num_free_;
  int64_t num_references_ = 0;
  int64_t num_shared_ = 0;
  std::vector<Block> blocks_;  // [num_blocks + 1], by id
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_KV_BLOCK_POOL_H_
