#include "worker/cpu/weight_arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace octavo {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kSlabBytes = size_t{64} << 20;
constexpr size_t kAlignment = 64;

size_t RoundUp(size_t value, size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

WeightArena::~WeightArena() {
  for (const Slab& slab : slabs_) munmap(slab.data, slab.bytes);
}

absl::StatusOr<uint8_t*> WeightArena::Allocate(size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const size_t needed = RoundUp(bytes, kAlignment);
  if (slabs_.empty() || slabs_.back().bytes - slabs_.back().used < needed) {
    const size_t slab_bytes = RoundUp(std::max(needed, kSlabBytes), kHugePage);
    // Mapped with room to cut the front to a huge-page boundary.
    void* mapped = mmap(nullptr, slab_bytes + kHugePage, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) {
      return absl::ResourceExhaustedError(absl::StrCat("packed weights need ", slab_bytes,
                                                       " more bytes beyond the ", allocated_,
                                                       " already packed: ", std::strerror(errno)));
    }
    const uintptr_t begin = reinterpret_cast<uintptr_t>(mapped);
    const uintptr_t aligned = RoundUp(begin, kHugePage);
    if (aligned > begin) munmap(mapped, aligned - begin);
    const size_t tail = begin + kHugePage - aligned;
    if (tail > 0) munmap(reinterpret_cast<void*>(aligned + slab_bytes), tail);
    // Advice only: without huge pages the weights work, slower.
    madvise(reinterpret_cast<void*>(aligned), slab_bytes, MADV_HUGEPAGE);
    slabs_.push_back({reinterpret_cast<uint8_t*>(aligned), slab_bytes, 0});
  }
  Slab& slab = slabs_.back();
  uint8_t* result = slab.data + slab.used;
  slab.used += needed;
  allocated_ += bytes;
  return result;
}

size_t WeightArena::allocated_bytes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return allocated_;
}

}  // namespace octavo
