#include "scheduler/engine/engine_snapshot.h"

#include <algorithm>

namespace octavo {
namespace {

// vLLM's bounds where it has the same histogram, so that dashboards compare.
constexpr double kFirstTokenBounds[] = {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
                                        1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560};
constexpr double kInterTokenBounds[] = {.001, .0025, .005, .01, .025, .05, .075, .1, .15, .2, .3,
                                        .4,   .5,    .75,  1,   2.5,  5,   7.5,  10, 20,  40, 80};
constexpr double kRequestBounds[] = {.1, .3, .5, .8, 1,  1.5, 2,   2.5, 5,   10,   15,
                                     20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
constexpr double kQueueBounds[] = {.001, .005, .01, .05, .1, .3, .5,  .8,  1,   1.5, 2,    2.5,
                                   5,    10,   15,  20,  30, 60, 120, 240, 480, 960, 1920, 7680};
constexpr double kWorkerStepBounds[] = {.0005, .001, .0025, .005, .01, .025, .05, .075,
                                        .1,    .25,  .5,    1,    2.5, 5,    10,  30};
constexpr double kScheduleBounds[] = {.000005, .00001, .000025, .00005, .0001, .00025,
                                      .0005,   .001,   .0025,   .005,   .01,   .05};

}  // namespace

absl::string_view Name(EngineState state) {
  switch (state) {
    case EngineState::kConnecting:
      return "connecting";
    case EngineState::kLoading:
      return "loading";
    case EngineState::kReady:
      return "ready";
    case EngineState::kRecovering:
      return "recovering";
    case EngineState::kFailed:
      return "failed";
  }
  return "unknown";
}

void Histogram::Observe(double value) {
  const auto bound = std::lower_bound(bounds_.begin(), bounds_.end(), value);
  ++buckets_[static_cast<size_t>(bound - bounds_.begin())];
  ++count_;
  sum_ += value;
}

void RecentValues::Add(double value) {
  values_[added_++ % values_.size()] = static_cast<float>(value);
  last_ = value;
}

double RecentValues::Median() const {
  const size_t size = std::min<size_t>(added_, values_.size());
  if (size == 0) return 0;
  auto sorted = values_;
  std::nth_element(sorted.begin(), sorted.begin() + size / 2, sorted.begin() + size);
  return sorted[size / 2];
}

void LevelSeconds::Add(const SchedulerStats& stats, double seconds) {
  held_slots += static_cast<double>(stats.held_slots) * seconds;
  filled_slots += static_cast<double>(stats.filled_slots) * seconds;
  running += static_cast<double>(stats.running) * seconds;
}

EngineLatencies::EngineLatencies()
    : schedule(kScheduleBounds),
      worker(kWorkerStepBounds),
      queue(kQueueBounds),
      first_token(kFirstTokenBounds),
      inter_token(kInterTokenBounds),
      end_to_end(kRequestBounds) {}

}  // namespace octavo
