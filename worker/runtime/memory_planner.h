// How much of a device's memory the KV cache may take (design chapter 6).
#ifndef OCTAVO_WORKER_RUNTIME_MEMORY_PLANNER_H_
#define OCTAVO_WORKER_RUNTIME_MEMORY_PLANNER_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "common/cache_geometry.h"
#include "common/executor.h"
#include "worker/backend/backend.h"

namespace octavo {

// What an operator may say. The first that is set wins: blocks, bytes, share.
struct MemoryFlags {
  int64_t num_blocks = 0;             // --num-gpu-blocks-override; 0: not given
  int64_t kv_cache_bytes = 0;         // --kv-cache-memory-bytes; 0: not given
  std::optional<double> utilization;  // --gpu-memory-utilization, of the device's whole memory
  int64_t swap_bytes = -1;            // --swap-space, of the host; 0: none; -1: not given
};

// Whether the budget does not depend on what else needs memory.
inline bool FixesBudget(const MemoryFlags& flags) {
  return flags.num_blocks != 0 || flags.kv_cache_bytes != 0;
}

// Bytes the worker holds or will hold besides the cache.
struct MemoryUse {
  int64_t weight_bytes = 0;      // resident already
  int64_t activation_bytes = 0;  // of the largest step; not in use now
};

// The budget of a worker whose device memory is the machine's own: without flags it takes
// min(4 GiB, half of what stays free beside the largest step). INVALID_ARGUMENT for flags out of
// range. A budget too small for one block is not an error: the capacity then says 0 blocks. Swapped
// blocks go to min(4 GiB, a quarter of what is free) unless told otherwise.
absl::StatusOr<WorkerCapacity> PlanHostMemory(const MemoryFlags& flags, const DeviceMemory& memory,
                                              const MemoryUse& use, const CacheGeometry& geometry);

// The budget of a card: without flags what a share of kDefaultUtilization of its memory leaves
// beside all that is in use there, weights, the context and other processes included, and the
// largest step. Swapped blocks go to the host, of whose memory `host_free_bytes` are free. Errors
// as above.
inline constexpr double kDefaultUtilization = 0.9;
absl::StatusOr<WorkerCapacity> PlanDeviceMemory(const MemoryFlags& flags,
                                                const DeviceMemory& memory, int64_t host_free_bytes,
                                                const MemoryUse& use,
                                                const CacheGeometry& geometry);

}  // namespace octavo

#endif  // OCTAVO_WORKER_RUNTIME_MEMORY_PLANNER_H_
