// Memory for packed weights: large slabs on huge pages, because a product streams its panels front
// to back and address translation costs 15-20 % of the read bandwidth with 4 KiB pages.
#ifndef OCTAVO_WORKER_CPU_WEIGHT_ARENA_H_
#define OCTAVO_WORKER_CPU_WEIGHT_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "absl/status/statusor.h"

namespace octavo {

// Owns every byte it hands out until it is destroyed. Thread-safe.
class WeightArena {
 public:
  WeightArena() = default;
  ~WeightArena();
  WeightArena(const WeightArena&) = delete;
  WeightArena& operator=(const WeightArena&) = delete;

  // Zeroed and 64-byte aligned. RESOURCE_EXHAUSTED with both sizes when the system
  // has no more.
  absl::StatusOr<uint8_t*> Allocate(size_t bytes);

  size_t allocated_bytes() const;

 private:
  struct Slab {
    uint8_t* data = nullptr;
    size_t bytes = 0;
    size_t used = 0;
  };

  mutable std::mutex mutex_;
  std::vector<Slab> slabs_;  // only the last one has room; guarded by mutex_
  size_t allocated_ = 0;     // guarded by mutex_
};

}  // namespace octavo

#endif  // OCTAVO_WORKER_CPU_WEIGHT_ARENA_H_
