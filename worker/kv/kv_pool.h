// The physical KV blocks of one worker, and the host blocks that they are swapped out to.
#ifndef OCTAVO_WORKER_KV_KV_POOL_H_
#define OCTAVO_WORKER_KV_KV_POOL_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/cache_geometry.h"
#include "common/step.h"
#include "worker/backend/backend.h"

namespace octavo {

#ifdef NDEBUG
inline constexpr bool kCheckSwaps = false;
#else
inline constexpr bool kCheckSwaps = true;
#endif

// Owned by the device thread, which calls all but SwapOut and SwapIn: those are one other thread's.
class KvPool {
 public:
  // Allocates `num_blocks` lendable blocks and the padding block 0 (kv.1). INVALID_ARGUMENT when
  // the count cannot be addressed, RESOURCE_EXHAUSTED when the device has no room. Host blocks are
  // touched when they are first swapped out to. With `check_swaps` each keeps a checksum, and one
  // that does not come back as it went ends the process. REQUIRES: `backend` outlives the pool.
  static absl::StatusOr<std::unique_ptr<KvPool>> Create(Backend& backend,
                                                        const CacheGeometry& geometry,
                                                        int64_t num_blocks,
                                                        int64_t num_swap_blocks = 0,
                                                        bool check_swaps = kCheckSwaps);

  KvPoolView view() const { return {buffer_.data(), geometry_}; }
  const CacheGeometry& geometry() const { return geometry_; }
  int64_t num_blocks() const { return num_blocks_; }  // lendable
  int64_t num_swap_blocks() const { return num_swap_blocks_; }
  std::byte* host_block(BlockId host) const {
    return host_.data() + (host - 1) * geometry_.bytes_per_block();
  }

  // Copies whole blocks over all layers. REQUIRES: a parallel set of ids in [1, num_blocks]
  // (step.4).
  absl::Status CopyBlocks(const std::vector<BlockCopy>& copies);
  // Copies whole blocks over all layers to the host and back. REQUIRES: ids in range, no step being
  // computed writes to a source or names a target.
  absl::Status SwapOut(const std::vector<BlockSwap>& swaps);
  absl::Status SwapIn(const std::vector<BlockSwap>& swaps);

 private:
  KvPool(Backend& backend, const CacheGeometry& geometry, int64_t num_blocks, Buffer buffer);
  std::byte* device_block(BlockId block) const {
    return buffer_.data() + block * geometry_.bytes_per_block();
  }
  uint64_t Checksum(BlockId host) const;

  Backend& backend_;
  CacheGeometry geometry_;
  int64_t num_blocks_;
  int64_t num_swap_blocks_ = 0;
  Buffer buffer_;
  Buffer host_;                      // [num_swap_blocks] blocks
  std::vector<uint64_t> checksums_;  // [num_swap_blocks] when they are kept
  CopyBlocksParams copy_params_;     // reused
};

}  // namespace octavo

#endif  // OCTAVO_WORKER_KV_KV_POOL_H_
