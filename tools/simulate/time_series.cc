#include "tools/simulate/time_series.h"

#include <algorithm>

namespace octavo::simulate {

const char* LevelName(size_t level) {
  constexpr std::array<const char*, kNumLevels> kNames = {
      "free_blocks",     "cached_blocks", "active_blocks",  "shared_blocks",  "saved_blocks",
      "held_slots",      "filled_slots",  "reserved_slots", "internal_slots", "external_slots",
      "left_over_slots", "swap_blocks",   "running",        "waiting"};
  return kNames[level];
}

void TimeSeries::Add(const Levels& levels, double seconds) {
  for (size_t i = 0; i < kNumLevels; ++i) {
    most_[i] = std::max(most_[i], levels[i]);
    total_[i] += levels[i] * seconds;
  }
  seconds_ += seconds;
  while (seconds > 0) {
    // Rounding must not leave a window that is all but full.
    if (integrals_.empty() || used_ > window_ * (1 - 1e-9)) {
      if (integrals_.size() == kMostPoints) Merge();
      integrals_.push_back(Levels{});
      used_ = 0;
    }
    const double part = std::min(seconds, window_ - used_);
    for (size_t i = 0; i < kNumLevels; ++i) integrals_.back()[i] += levels[i] * part;
    used_ += part;
    seconds -= part;
  }
}

// REQUIRES: all windows are full, and their number is even.
void TimeSeries::Merge() {
  const size_t half = integrals_.size() / 2;
  for (size_t i = 0; i < half; ++i) {
    for (size_t level = 0; level < kNumLevels; ++level) {
      integrals_[i][level] = integrals_[2 * i][level] + integrals_[2 * i + 1][level];
    }
  }
  integrals_.resize(half);
  window_ *= 2;
}

std::vector<Levels> TimeSeries::Points() const {
  std::vector<Levels> points = integrals_;
  for (size_t i = 0; i < points.size(); ++i) {
    const double length = i + 1 < points.size() ? window_ : used_;
    for (double& level : points[i]) level /= length;
  }
  return points;
}

}  // namespace octavo::simulate
