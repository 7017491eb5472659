// The physical KV blocks of one worker.
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

// Owned and called by the device thread.
class KvPool {
 public:
  // Allocates `num_blocks` lendable blocks and the padding block 0 (kv.1). INVALID_ARGUMENT when
  // the count cannot be addressed, RESOURCE_EXHAUSTED when the device has no room. REQUIRES:
  // `backend` outlives the pool.
  static absl::StatusOr<std::unique_ptr<KvPool>> Create(Backend& backend,
                                                        const CacheGeometry& geometry,
                                                        int64_t num_blocks);

  KvPoolView view() const { return {buffer_.data(), geometry_}; }
  const CacheGeometry& geometry() const { return geometry_; }
  int64_t num_blocks() const { return num_blocks_; }  // lendable

  // Copies whole blocks over all layers. REQUIRES: a parallel set of ids in [1, num_blocks]
  // (step.4).
  absl::Status CopyBlocks(const std::vector<BlockCopy>& copies);

 private:
  KvPool(Backend& backend, const CacheGeometry& geometry, int64_t num_blocks, Buffer buffer);

  Backend& backend_;
  CacheGeometry geometry_;
  int64_t num_blocks_;
  Buffer buffer_;
  CopyBlocksParams copy_params_;  // reused
};

}  // namespace octavo

#endif  // OCTAVO_WORKER_KV_KV_POOL_H_
