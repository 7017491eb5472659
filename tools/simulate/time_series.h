// Levels over simulated time, thinned so that a run of any length has a bounded number of points.
#ifndef OCTAVO_TOOLS_SIMULATE_TIME_SERIES_H_
#define OCTAVO_TOOLS_SIMULATE_TIME_SERIES_H_

#include <array>
#include <cstddef>
#include <vector>

namespace octavo::simulate {

// What a run is in at one moment. Blocks, slots (tokens) and requests.
enum Level : size_t {
  kFreeBlocks,
  kCachedBlocks,
  kActiveBlocks,
  kSharedBlocks,
  kSavedBlocks,
  kHeldSlots,
  kFilledSlots,
  kReservedSlots,  // empty, of those held; their request will write them
  kInternalSlots,  // held and never written
  kExternalSlots,  // free, and the head lacks only their adjacency
  kLeftOverSlots,  // free while the head waits for slots, for whatever reason
  kSwapBlocks,     // of host memory, in use
  kRunning,
  kWaiting,
  kNumLevels,
};
const char* LevelName(size_t level);
using Levels = std::array<double, kNumLevels>;

// Time averages over equal windows. When there would be too many, neighbours are merged and the
// window doubles.
class TimeSeries {
 public:
  static constexpr size_t kMostPoints = 1024;

  explicit TimeSeries(double first_window_seconds = 1e-3) : window_(first_window_seconds) {}

  // The run was at `levels` for `seconds`, right after the call before.
  void Add(const Levels& levels, double seconds);
  // Time averages of each window so far; the last one may be shorter.
  std::vector<Levels> Points() const;
  double window_seconds() const { return window_; }
  double seconds() const { return seconds_; }
  // Over the whole run.
  double Mean(Level level) const { return seconds_ > 0 ? total_[level] / seconds_ : 0; }
  double Most(Level level) const { return most_[level]; }

 private:
  void Merge();

  double window_;
  double seconds_ = 0;
  double used_ = 0;                // of the last window
  std::vector<Levels> integrals_;  // level x seconds, of each window
  Levels total_{};
  Levels most_{};
};

}  // namespace octavo::simulate

#endif  // OCTAVO_TOOLS_SIMULATE_TIME_SERIES_H_
