// The blocks of one sequence, in order of position.
#ifndef OCTAVO_SCHEDULER_KV_BLOCK_TABLE_H_
#define OCTAVO_SCHEDULER_KV_BLOCK_TABLE_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "common/ids.h"

namespace octavo {

// Position p of the sequence lives in blocks()[p / block_size], slot p % block_size. Every entry is
// one reference counted by the pool; only KvManager adds and removes entries.
class BlockTable {
 public:
  BlockTable() = default;
  BlockTable(BlockTable&& other) noexcept : blocks_(std::exchange(other.blocks_, {})) {}
  BlockTable& operator=(BlockTable&& other) noexcept {
    blocks_ = std::exchange(other.blocks_, {});
    return *this;
  }

  const std::vector<BlockId>& blocks() const { return blocks_; }
  int64_t num_blocks() const { return static_cast<int64_t>(blocks_.size()); }
  bool empty() const { return blocks_.empty(); }

 private:
  friend class KvManager;
  std::vector<BlockId> blocks_;
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_KV_BLOCK_TABLE_H_
