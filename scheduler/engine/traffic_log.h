// How long requests were and how often they came, for capacity planning.
#ifndef OCTAVO_SCHEDULER_ENGINE_TRAFFIC_LOG_H_
#define OCTAVO_SCHEDULER_ENGINE_TRAFFIC_LOG_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace octavo {

// Counts lengths in buckets: one each up to 16 tokens, then eight per doubling, so a bound is at
// most an eighth above what it stands for.
class LengthHistogram {
 public:
  static constexpr size_t kNumBuckets = 176;

  // Bucket i holds the lengths in (UpTo(i - 1), UpTo(i)]; the last one also all above.
  static int64_t UpTo(size_t bucket);
  static size_t BucketOf(int64_t tokens);  // REQUIRES: tokens >= 1

  void Observe(int64_t tokens) { ++counts_[BucketOf(tokens)]; }
  uint64_t count(size_t bucket) const { return counts_[bucket]; }

 private:
  std::array<uint64_t, kNumBuckets> counts_{};
};

struct TrafficReport {
  uint64_t arrivals = 0;          // requests admitted
  double seconds = 0;             // from the first arrival to the last
  double busiest_per_second = 0;  // over the fullest minute, counted from the first arrival
  // Of requests that ended after they had run; of one with several choices, of the last to end.
  LengthHistogram prompt;
  LengthHistogram output;
  LengthHistogram total;

  double per_second() const;  // mean; 0 before the second arrival
};

// Since the engine started. Thread-safe.
class TrafficLog {
 public:
  void Arrived(absl::Time when);
  void Ended(int64_t prompt_tokens, int64_t output_tokens);
  TrafficReport report() const;

 private:
  mutable absl::Mutex mutex_;
  TrafficReport report_ ABSL_GUARDED_BY(mutex_);
  absl::Time first_ ABSL_GUARDED_BY(mutex_);
  int64_t minute_ ABSL_GUARDED_BY(mutex_) = 0;           // of the last arrival
  uint64_t in_minute_ ABSL_GUARDED_BY(mutex_) = 0;       // arrivals in it
  uint64_t most_in_minute_ ABSL_GUARDED_BY(mutex_) = 0;  // in any
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_ENGINE_TRAFFIC_LOG_H_
