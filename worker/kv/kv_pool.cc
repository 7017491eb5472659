#include "worker/kv/kv_pool.h"

#include <limits>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace octavo {

absl::StatusOr<std::unique_ptr<KvPool>> KvPool::Create(Backend& backend,
                                                       const CacheGeometry& geometry,
                                                       int64_t num_blocks) {
  const int64_t most =
      std::min<int64_t>(std::numeric_limits<BlockId>::max() - 1,
                        std::numeric_limits<int64_t>::max() / geometry.bytes_per_block() - 1);
  if (num_blocks < 1 || num_blocks > most)
    return absl::InvalidArgumentError(
        absl::StrCat("num_blocks is ", num_blocks, "; it must be in [1, ", most, "]"));
  OCTAVO_ASSIGN_OR_RETURN(
      Buffer buffer, backend.Allocate(static_cast<size_t>(geometry.PoolBytes(num_blocks + 1))));
  return absl::WrapUnique(new KvPool(backend, geometry, num_blocks, std::move(buffer)));
}

KvPool::KvPool(Backend& backend, const CacheGeometry& geometry, int64_t num_blocks, Buffer buffer)
    : backend_(backend), geometry_(geometry), num_blocks_(num_blocks), buffer_(std::move(buffer)) {}

absl::Status KvPool::CopyBlocks(const std::vector<BlockCopy>& copies) {
  if (copies.empty()) return absl::OkStatus();
  copy_params_.copies.assign(copies.begin(), copies.end());
  copy_params_.pool = view();
  return backend_.CopyBlocks(copy_params_);
}

}  // namespace octavo
