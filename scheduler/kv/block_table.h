// The blocks of one sequence, in order of position.
#ifndef OCTAVO_SCHEDULER_KV_BLOCK_TABLE_H_
#define OCTAVO_SCHEDULER_KV_BLOCK_TABLE_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "common/ids.h"

namespace octavo {

// With G groups of layers (kv.7), position p of group g lives in blocks()[p / block_size * G + g],
// slot p % block_size; G entries are a row. Every entry is one reference counted by the pool, or
// the padding block where the group's window needs none. Only KvManager changes entries.
class BlockTable {
 public:
  BlockTable() = default;
  BlockTable(BlockTable&& other) noexcept { *this = std::move(other); }
  BlockTable& operator=(BlockTable&& other) noexcept {
    blocks_ = std::exchange(other.blocks_, {});
    slid_ = std::exchange(other.slid_, 0);
    borrowed_ = std::exchange(other.borrowed_, 0);
    writable_ = std::exchange(other.writable_, 0);
    promised_ = std::exchange(other.promised_, 0);
    return *this;
  }

  const std::vector<BlockId>& blocks() const { return blocks_; }
  int64_t num_blocks() const { return static_cast<int64_t>(blocks_.size()); }  // entries
  bool empty() const { return blocks_.empty(); }
  // Committed tokens whose windows have given back what they left.
  int64_t slid() const { return slid_; }
  // Of blocks put aside: how many more came from the pool because none was left of them.
  int64_t borrowed() const { return borrowed_; }
  // Blocks that it does not have yet, but that nobody else gets.
  int64_t promised() const { return promised_; }

 private:
  friend class KvManager;
  std::vector<BlockId> blocks_;
  int64_t slid_ = 0;
  int64_t borrowed_ = 0;
  // Positions before this one that are not written yet are in blocks that only this table holds; 0:
  // nobody looked since it was shared. Most decodes need not look at their block again.
  int64_t writable_ = 0;
  int64_t promised_ = 0;
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_KV_BLOCK_TABLE_H_
