#include "worker/runtime/memory_planner.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/byte_size.h"

namespace octavo {
namespace {

constexpr int64_t kDefaultMostBytes = int64_t{4} << 30;

constexpr int64_t kMostBlocks = std::numeric_limits<BlockId>::max() - 1;

// Host blocks for swapping. They are touched as they are used, so the default may promise what the
// device pool, which is the same memory, also counts on: swapping begins when that is full.
int64_t SwapBlocks(const MemoryFlags& flags, int64_t free_bytes, const CacheGeometry& geometry) {
  const int64_t bytes =
      flags.swap_bytes >= 0 ? flags.swap_bytes : std::min(kDefaultMostBytes, free_bytes / 4);
  return std::min(bytes / geometry.bytes_per_block(), kMostBlocks);
}

}  // namespace

absl::StatusOr<WorkerCapacity> PlanHostMemory(const MemoryFlags& flags, const DeviceMemory& memory,
                                              const MemoryUse& use, const CacheGeometry& geometry) {
  WorkerCapacity capacity;
  capacity.weight_bytes = use.weight_bytes;
  capacity.activation_bytes = use.activation_bytes;
  const int64_t free_bytes = std::max<int64_t>(0, memory.free_bytes - use.activation_bytes);
  capacity.num_swap_blocks = SwapBlocks(flags, free_bytes, geometry);
  if (flags.num_blocks < 0)
    return absl::InvalidArgumentError(
        absl::StrCat("--num-gpu-blocks-override is ", flags.num_blocks, "; it must be at least 1"));
  if (flags.num_blocks > 0) {
    const int64_t most = std::numeric_limits<int64_t>::max() / geometry.bytes_per_block() - 1;
    if (flags.num_blocks > std::min(most, kMostBlocks))
      return absl::InvalidArgumentError(absl::StrCat("--num-gpu-blocks-override is ",
                                                     flags.num_blocks, "; block ids have 31 bits"));
    capacity.num_blocks = flags.num_blocks;
    capacity.kv_budget_bytes = geometry.PoolBytes(flags.num_blocks + 1);
    capacity.budget_reason = absl::StrCat("--num-gpu-blocks-override ", flags.num_blocks);
    return capacity;
  }

  const std::string beside =
      absl::StrCat(FormatByteSize(free_bytes), " free beside ",
                   FormatByteSize(use.activation_bytes), " for the largest step");
  if (flags.kv_cache_bytes != 0) {
    if (flags.kv_cache_bytes < 0)
      return absl::InvalidArgumentError(absl::StrCat(
          "--kv-cache-memory-bytes is ", flags.kv_cache_bytes, "; it must be positive"));
    capacity.kv_budget_bytes = flags.kv_cache_bytes;
    capacity.budget_reason =
        absl::StrCat("--kv-cache-memory-bytes ", FormatByteSize(flags.kv_cache_bytes));
  } else if (flags.utilization) {
    const double share = *flags.utilization;
    if (!(share > 0 && share <= 1))
      return absl::InvalidArgumentError(
          absl::StrCat("--gpu-memory-utilization is ", share, "; it must be in (0, 1]"));
    const int64_t granted = static_cast<int64_t>(share * static_cast<double>(memory.total_bytes));
    const int64_t left = granted - use.weight_bytes - use.activation_bytes;
    capacity.kv_budget_bytes = std::max<int64_t>(0, std::min(left, free_bytes));
    capacity.budget_reason =
        absl::StrCat("--gpu-memory-utilization ", share, " of ", FormatByteSize(memory.total_bytes),
                     ", less ", FormatByteSize(use.weight_bytes), " of weights and ",
                     FormatByteSize(use.activation_bytes), " for the largest step");
    if (free_bytes < left)
      absl::StrAppend(&capacity.budget_reason, ", but only ", FormatByteSize(free_bytes),
                      " are free");
  } else {
    capacity.kv_budget_bytes = std::min(kDefaultMostBytes, free_bytes / 2);
    capacity.budget_reason = absl::StrCat("min(4 GiB, half of ", beside, ")");
  }
  capacity.num_blocks = std::min(geometry.LendableBlocks(capacity.kv_budget_bytes), kMostBlocks);
  return capacity;
}

}  // namespace octavo
