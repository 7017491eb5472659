// Numbered pieces of work that threads take from, each piece once.
#ifndef OCTAVO_WORKER_CPU_CLAIMS_H_
#define OCTAVO_WORKER_CPU_CLAIMS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

namespace octavo {

// Any number of independent lists of pieces. Next is for all threads at once; Reset for one, while
// no other calls anything.
class Claims {
 public:
  void Reset(int64_t lists) {
    while (static_cast<int64_t>(taken_.size()) < lists) taken_.emplace_back(0);
    for (std::atomic<int64_t>& taken : taken_) taken.store(0, std::memory_order_relaxed);
  }
  // The next of `pieces` pieces of a list that nobody has taken, if there is one.
  std::optional<int64_t> Next(int64_t list, int64_t pieces) {
    std::atomic<int64_t>& taken = taken_[static_cast<size_t>(list)];
    if (taken.load(std::memory_order_relaxed) >= pieces) return std::nullopt;
    const int64_t piece = taken.fetch_add(1, std::memory_order_relaxed);
    if (piece >= pieces) return std::nullopt;
    return piece;
  }

 private:
  std::deque<std::atomic<int64_t>> taken_;
};

}  // namespace octavo

#endif  // OCTAVO_WORKER_CPU_CLAIMS_H_
