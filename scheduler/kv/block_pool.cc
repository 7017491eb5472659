#include "scheduler/kv/block_pool.h"

#include <limits>

#include "common/check.h"

namespace octavo {

BlockPool::BlockPool(int64_t num_blocks) : num_blocks_(num_blocks), num_free_(num_blocks) {
  OCTAVO_CHECK(num_blocks >= 0 && num_blocks < std::numeric_limits<BlockId>::max(),
               "num_blocks=", num_blocks);
  blocks_.resize(static_cast<size_t>(num_blocks) + 1);
  const BlockId last = static_cast<BlockId>(num_blocks);
  for (BlockId block = 0; block <= last; ++block) {
    blocks_[block].next = block == last ? kPaddingBlock : block + 1;
    blocks_[block].previous = block == 0 ? last : block - 1;
  }
}

void BlockPool::Unlink(BlockId block) {
  Block& entry = blocks_[block];
  blocks_[entry.previous].next = entry.next;
  blocks_[entry.next].previous = entry.previous;
  --num_free_;
}

std::optional<BlockId> BlockPool::Lend() {
  const BlockId block = blocks_[kPaddingBlock].next;
  if (block == kPaddingBlock) return std::nullopt;
  Unlink(block);
  blocks_[block].ref_count = 1;
  ++blocks_[block].lendings;
  ++num_references_;
  return block;
}

std::optional<BlockId> BlockPool::FindRun(int64_t count) const {
  OCTAVO_CHECK(count >= 1, "count=", count);
  if (count > num_free_) return std::nullopt;
  // From the end of each candidate backwards: a lent block there rules out every run up to it.
  int64_t first = 1;
  while (first + count - 1 <= num_blocks_) {
    int64_t block = first + count - 1;
    while (block >= first && blocks_[block].ref_count == 0) --block;
    if (block < first) return static_cast<BlockId>(first);
    first = block + 1;
  }
  return std::nullopt;
}

void BlockPool::LendThis(BlockId block) {
  OCTAVO_CHECK(At(block).ref_count == 0, "block ", block, " is lent");
  Unlink(block);
  blocks_[block].ref_count = 1;
  ++blocks_[block].lendings;
  ++num_references_;
}

void BlockPool::Share(BlockId block) {
  Block& entry = At(block);
  if (entry.ref_count == 0) Unlink(block);
  ++num_references_;
  if (++entry.ref_count == 2) ++num_shared_;
}

bool BlockPool::Release(BlockId block, bool worthless) {
  Block& entry = At(block);
  OCTAVO_CHECK(entry.ref_count > 0, "double free of block ", block);
  --num_references_;
  if (--entry.ref_count == 1) --num_shared_;
  if (entry.ref_count > 0) return false;
  // The anchor comes after the last block and before the first.
  const BlockId before = worthless ? kPaddingBlock : blocks_[kPaddingBlock].previous;
  const BlockId after = blocks_[before].next;
  entry.previous = before;
  entry.next = after;
  blocks_[before].next = block;
  blocks_[after].previous = block;
  ++num_free_;
  return true;
}

void BlockPool::CheckInvariants() const {
  OCTAVO_CHECK(blocks_[kPaddingBlock].ref_count == 0, "padding block lent");
  int64_t referenced = 0;
  int64_t shared = 0;
  int64_t references = 0;
  for (BlockId block = 1; block <= num_blocks_; ++block) {
    const int32_t count = blocks_[block].ref_count;
    OCTAVO_CHECK(count >= 0, "block=", block);
    referenced += count > 0 ? 1 : 0;
    shared += count > 1 ? 1 : 0;
    references += count;
  }
  OCTAVO_CHECK(shared == num_shared_ && references == num_references_, "shared=", num_shared_,
               " references=", num_references_);
  OCTAVO_CHECK(num_free_ + referenced == num_blocks_, "free=", num_free_,
               " referenced=", referenced, " num_blocks=", num_blocks_);
  int64_t listed = 0;
  for (BlockId block = blocks_[kPaddingBlock].next; block != kPaddingBlock;
       block = blocks_[block].next) {
    OCTAVO_CHECK(blocks_[block].ref_count == 0, "lent block ", block, " in the free list");
    OCTAVO_CHECK(blocks_[blocks_[block].next].previous == block, "broken link at block ", block);
    OCTAVO_CHECK(++listed <= num_free_, "free list longer than ", num_free_);
  }
  OCTAVO_CHECK(listed == num_free_, "listed=", listed, " free=", num_free_);
}

}  // namespace octavo
