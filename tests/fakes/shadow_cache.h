// The pools of a worker without the numbers: for every physical slot, on the device and on the
// host, which token was written there.
#ifndef OCTAVO_TESTS_FAKES_SHADOW_CACHE_H_
#define OCTAVO_TESTS_FAKES_SHADOW_CACHE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "common/ids.h"
#include "common/kv_groups.h"
#include "common/step.h"
#include "tests/fakes/fake_model.h"

namespace octavo {

struct ShadowSlot {
  SequenceId sequence = 0;  // the writer, for messages: a shared block has readers with other ids
  int32_t position = -1;    // -1: never written
  TokenId token = 0;
  ChainHash chain = 0;  // of the prefix that ends with this token
  int32_t group = 0;    // of layers
};

// Aliasing, stale reuse, a missed copy and a wrong table all show as a slot that does not hold the
// prefix which attention is about to read.
class ShadowCache {
 public:
  // `windows`: of each group of layers, in tokens; 0: sees all.
  ShadowCache(int64_t num_blocks, int32_t block_size, std::vector<int32_t> windows = {0},
              int64_t num_swap_blocks = 0);

  int64_t num_blocks() const { return num_blocks_; }
  int32_t block_size() const { return block_size_; }
  int32_t num_groups() const { return static_cast<int32_t>(windows_.size()); }
  // The first row of a table that a group needs to compute `position`.
  int64_t FirstRow(int64_t position, int32_t group) const {
    return FirstBlockSeen(position, windows_[static_cast<size_t>(group)], block_size_);
  }

  // Into the block of each group.
  absl::Status Write(const std::vector<BlockId>& table, const ShadowSlot& slot);
  // The slot that `table` gives `position` in a group. An error when the table is too short or the
  // block is out of the pool.
  absl::Status Read(const std::vector<BlockId>& table, int32_t position, ShadowSlot* slot,
                    int32_t group = 0) const;
  // As attention at the tokens from `first` on would read: every position that a group sees of them
  // holds exactly its token, written by that group after exactly its prefix.
  absl::Status CheckPrefix(const std::vector<BlockId>& table, const std::vector<TokenId>& tokens,
                           int64_t first = 0) const;
  absl::Status Copy(BlockId source, BlockId target);
  absl::Status SwapOut(const BlockSwap& swap);
  absl::Status SwapIn(const BlockSwap& swap);
  // Every slot is as if never written.
  void Wipe();

 private:
  absl::Status CheckSwap(const BlockSwap& swap) const;
  absl::Status Locate(const std::vector<BlockId>& table, int32_t position, int32_t group,
                      size_t* index) const;

  const int64_t num_blocks_;
  const int32_t block_size_;
  const int64_t num_swap_blocks_;
  const std::vector<int32_t> windows_;
  std::vector<ShadowSlot> slots_;  // [num_blocks + 1, block_size]
  std::vector<ShadowSlot> host_;   // [num_swap_blocks + 1, block_size]
};

}  // namespace octavo

#endif  // OCTAVO_TESTS_FAKES_SHADOW_CACHE_H_
