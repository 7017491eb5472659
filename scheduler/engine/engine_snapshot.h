// What the engine holds and does, as of its last step boundary; for readers on any thread.
#ifndef OCTAVO_SCHEDULER_ENGINE_ENGINE_SNAPSHOT_H_
#define OCTAVO_SCHEDULER_ENGINE_ENGINE_SNAPSHOT_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/ids.h"
#include "scheduler/core/scheduler.h"
#include "scheduler/engine/capacity.h"

namespace octavo {

enum class EngineState {
  kConnecting,  // no worker answers yet
  kLoading,     // weights are being read
  kReady,
  kRecovering,  // a worker was lost; streams wait
  kFailed,      // the workers can never serve: `failure` says why
};
absl::string_view Name(EngineState state);  // "connecting"

// Counts per bucket; a value belongs to the first bound that it does not exceed.
class Histogram {
 public:
  static constexpr int kMaxBounds = 24;

  // `bounds` is increasing, at most kMaxBounds long, and outlives the histogram.
  explicit Histogram(absl::Span<const double> bounds) : bounds_(bounds) {}
  void Observe(double value);

  absl::Span<const double> bounds() const { return bounds_; }
  uint64_t count() const { return count_; }
  double sum() const { return sum_; }
  uint64_t in_bucket(size_t bucket) const {
    return buckets_[bucket];
  }  // bounds().size(): above all

 private:
  absl::Span<const double> bounds_;
  std::array<uint64_t, kMaxBounds + 1> buckets_{};
  uint64_t count_ = 0;
  double sum_ = 0;
};

// The most recent values, for medians of "now".
class RecentValues {
 public:
  void Add(double value);
  double Median() const;  // 0 when empty
  double last() const { return last_; }

 private:
  std::array<float, 128> values_{};
  uint64_t added_ = 0;
  double last_ = 0;
};

// Durations in seconds since the engine started.
struct EngineLatencies {
  EngineLatencies();
  Histogram schedule;     // Schedule + Commit of one step, on the engine thread
  Histogram worker;       // compute time of one step, as rank 0 measured it
  Histogram queue;        // arrival to first scheduled
  Histogram first_token;  // arrival to first token
  Histogram inter_token;  // between two tokens of a request
  Histogram end_to_end;   // arrival to last token
  RecentValues recent_schedule;
};

struct WorkerStatus {
  std::string name;
  std::string device;
  std::string numeric_path;
  bool connected = false;
  int64_t load_done_bytes = 0;
  int64_t load_total_bytes = 0;
  int64_t weight_bytes = 0;
  double last_step_seconds = 0;
  double step_seconds_p50 = 0;  // of recent steps
};

// Levels times the seconds that they lasted, since the engine started: the difference between two
// snapshots, divided by the time between them, is a mean.
struct LevelSeconds {
  double held_slots = 0;
  double filled_slots = 0;
  double running = 0;

  // The levels were those of `stats` for `seconds`.
  void Add(const SchedulerStats& stats, double seconds);
};

struct EngineSnapshot {
  EngineState state = EngineState::kConnecting;
  bool draining = false;
  bool prefix_cache = true;  // --enable-prefix-caching
  absl::Status failure;
  Epoch epoch = 0;
  SchedulerStats stats;
  CapacityReport capacity;  // num_blocks 0 until it is known
  LevelSeconds level_seconds;
  EngineLatencies latencies;
  std::vector<WorkerStatus> workers;
  uint64_t recoveries = 0;       // times the workers were lost
  uint64_t failed_requests = 0;  // ended by the engine with an error
  uint64_t live_streams = 0;     // requests that have not ended
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_ENGINE_ENGINE_SNAPSHOT_H_
