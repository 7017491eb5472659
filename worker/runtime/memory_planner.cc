#include "worker/runtime/memory_planner.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/byte_size.h"
#include "common/status_macros.h"

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

absl::Status CheckBlocks(int64_t num_blocks, const CacheGeometry& geometry) {
  if (num_blocks < 0)
    return absl::InvalidArgumentError(
        absl::StrCat("--num-gpu-blocks-override is ", num_blocks, "; it must be at least 1"));
  const int64_t most = std::numeric_limits<int64_t>::max() / geometry.bytes_per_block() - 1;
  if (num_blocks > std::min(most, kMostBlocks))
    return absl::InvalidArgumentError(
        absl::StrCat("--num-gpu-blocks-override is ", num_blocks, "; block ids have 31 bits"));
  return absl::OkStatus();
}

absl::Status CheckShare(double share) {
  if (share > 0 && share <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--gpu-memory-utilization is ", share, "; it must be in (0, 1]"));
}

struct Budget {
  int64_t bytes = 0;
  std::string reason;
};

// What the flags that come before any share say; nullopt: nothing.
absl::StatusOr<std::optional<Budget>> FixedBudget(const MemoryFlags& flags,
                                                  const CacheGeometry& geometry) {
  OCTAVO_RETURN_IF_ERROR(CheckBlocks(flags.num_blocks, geometry));
  if (flags.num_blocks > 0)
    return Budget{geometry.PoolBytes(flags.num_blocks + 1),
                  absl::StrCat("--num-gpu-blocks-override ", flags.num_blocks)};
  if (flags.kv_cache_bytes < 0)
    return absl::InvalidArgumentError(
        absl::StrCat("--kv-cache-memory-bytes is ", flags.kv_cache_bytes, "; it must be positive"));
  if (flags.kv_cache_bytes > 0)
    return Budget{flags.kv_cache_bytes,
                  absl::StrCat("--kv-cache-memory-bytes ", FormatByteSize(flags.kv_cache_bytes))};
  return std::nullopt;
}

WorkerCapacity CapacityOf(const Budget& budget, const MemoryUse& use,
                          const CacheGeometry& geometry) {
  WorkerCapacity capacity;
  capacity.weight_bytes = use.weight_bytes;
  capacity.activation_bytes = use.activation_bytes;
  capacity.kv_budget_bytes = budget.bytes;
  capacity.budget_reason = budget.reason;
  capacity.num_blocks = std::min(geometry.LendableBlocks(budget.bytes), kMostBlocks);
  return capacity;
}

}  // namespace

absl::StatusOr<WorkerCapacity> PlanHostMemory(const MemoryFlags& flags, const DeviceMemory& memory,
                                              const MemoryUse& use, const CacheGeometry& geometry) {
  const int64_t free_bytes = std::max<int64_t>(0, memory.free_bytes - use.activation_bytes);
  OCTAVO_ASSIGN_OR_RETURN(std::optional<Budget> budget, FixedBudget(flags, geometry));
  if (!budget && flags.utilization) {
    const double share = *flags.utilization;
    OCTAVO_RETURN_IF_ERROR(CheckShare(share));
    const int64_t granted = static_cast<int64_t>(share * static_cast<double>(memory.total_bytes));
    const int64_t left = granted - use.weight_bytes - use.activation_bytes;
    budget = {
        std::max<int64_t>(0, std::min(left, free_bytes)),
        absl::StrCat("--gpu-memory-utilization ", share, " of ", FormatByteSize(memory.total_bytes),
                     ", less ", FormatByteSize(use.weight_bytes), " of weights and ",
                     FormatByteSize(use.activation_bytes), " for the largest step")};
    if (free_bytes < left)
      absl::StrAppend(&budget->reason, ", but only ", FormatByteSize(free_bytes), " are free");
  } else if (!budget) {
    budget = {std::min(kDefaultMostBytes, free_bytes / 2),
              absl::StrCat("min(4 GiB, half of ", FormatByteSize(free_bytes), " free beside ",
                           FormatByteSize(use.activation_bytes), " for the largest step)")};
  }
  WorkerCapacity capacity = CapacityOf(*budget, use, geometry);
  capacity.num_swap_blocks = SwapBlocks(flags, free_bytes, geometry);
  return capacity;
}

absl::StatusOr<WorkerCapacity> PlanDeviceMemory(const MemoryFlags& flags,
                                                const DeviceMemory& memory, int64_t host_free_bytes,
                                                const MemoryUse& use,
                                                const CacheGeometry& geometry) {
  OCTAVO_ASSIGN_OR_RETURN(std::optional<Budget> budget, FixedBudget(flags, geometry));
  if (!budget) {
    const double share = flags.utilization.value_or(kDefaultUtilization);
    OCTAVO_RETURN_IF_ERROR(CheckShare(share));
    const int64_t granted = static_cast<int64_t>(share * static_cast<double>(memory.total_bytes));
    const int64_t used = memory.total_bytes - memory.free_bytes;
    budget = {
        std::max<int64_t>(0, granted - used - use.activation_bytes),
        absl::StrCat("--gpu-memory-utilization ", share, " of ", FormatByteSize(memory.total_bytes),
                     ", less ", FormatByteSize(used), " in use, ", FormatByteSize(use.weight_bytes),
                     " of weights included, and ", FormatByteSize(use.activation_bytes),
                     " for the largest step")};
  }
  WorkerCapacity capacity = CapacityOf(*budget, use, geometry);
  capacity.num_swap_blocks = SwapBlocks(flags, host_free_bytes, geometry);
  return capacity;
}

}  // namespace octavo
