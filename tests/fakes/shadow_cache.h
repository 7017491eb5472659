// The pool of a worker without the numbers: for every physical slot, which token was written there.
#ifndef OCTAVO_TESTS_FAKES_SHADOW_CACHE_H_
#define OCTAVO_TESTS_FAKES_SHADOW_CACHE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "common/ids.h"
#include "tests/fakes/fake_model.h"

namespace octavo {

struct ShadowSlot {
  SequenceId sequence = 0;  // the writer, for messages: a shared block has readers with other ids
  int32_t position = -1;    // -1: never written
  TokenId token = 0;
  ChainHash chain = 0;  // of the prefix that ends with this token
};

// Aliasing, stale reuse, a missed copy and a wrong table all show as a slot that does not hold the
// prefix which attention is about to read.
class ShadowCache {
 public:
  ShadowCache(int64_t num_blocks, int32_t block_size);

  int64_t num_blocks() const { return num_blocks_; }
  int32_t block_size() const { return block_size_; }

  absl::Status Write(const std::vector<BlockId>& table, const ShadowSlot& slot);
  // The slot that `table` gives `position`. An error when the table is too short or the block is
  // out of the pool.
  absl::Status Read(const std::vector<BlockId>& table, int32_t position, ShadowSlot* slot) const;
  // As attention at the last of `tokens` would read: every position holds exactly its token,
  // written after exactly its prefix.
  absl::Status CheckPrefix(const std::vector<BlockId>& table,
                           const std::vector<TokenId>& tokens) const;
  absl::Status Copy(BlockId source, BlockId target);
  // Every slot is as if never written.
  void Wipe();

 private:
  absl::Status Locate(const std::vector<BlockId>& table, int32_t position, size_t* index) const;

  const int64_t num_blocks_;
  const int32_t block_size_;
  std::vector<ShadowSlot> slots_;  // [num_blocks + 1, block_size]
};

}  // namespace octavo

#endif  // OCTAVO_TESTS_FAKES_SHADOW_CACHE_H_
