#include "scheduler/engine/traffic_log.h"

#include <algorithm>
#include <bit>

#include "common/check.h"

namespace octavo {
namespace {

constexpr int64_t kExact = 16;  // lengths with a bucket of their own
constexpr int kExactBits = 4;
constexpr int kPerDoublingBits = 3;

}  // namespace

int64_t LengthHistogram::UpTo(size_t bucket) {
  if (bucket < static_cast<size_t>(kExact)) return static_cast<int64_t>(bucket) + 1;
  const size_t beyond = bucket - kExact;
  const int doubling = kExactBits + static_cast<int>(beyond >> kPerDoublingBits);
  const int64_t eighths = static_cast<int64_t>(beyond & 7) + 1;
  return (int64_t{1} << doubling) + (eighths << (doubling - kPerDoublingBits));
}

size_t LengthHistogram::BucketOf(int64_t tokens) {
  OCTAVO_CHECK(tokens >= 1, "tokens=", tokens);
  if (tokens <= kExact) return static_cast<size_t>(tokens - 1);
  const uint64_t before = static_cast<uint64_t>(tokens - 1);  // in [2^d, 2^(d+1))
  const int doubling = std::bit_width(before) - 1;
  const size_t eighth = (before >> (doubling - kPerDoublingBits)) & 7;
  const size_t bucket =
      kExact + (static_cast<size_t>(doubling - kExactBits) << kPerDoublingBits) + eighth;
  return std::min(bucket, kNumBuckets - 1);
}

double TrafficReport::per_second() const {
  return seconds > 0 ? static_cast<double>(arrivals - 1) / seconds : 0;
}

void TrafficLog::Arrived(absl::Time when) {
  absl::MutexLock lock(&mutex_);
  if (report_.arrivals++ == 0) first_ = when;
  const double since = absl::ToDoubleSeconds(when - first_);
  report_.seconds = std::max(report_.seconds, since);
  const int64_t minute = static_cast<int64_t>(since / 60);
  if (minute != minute_) in_minute_ = 0;
  minute_ = minute;
  most_in_minute_ = std::max(most_in_minute_, ++in_minute_);
}

void TrafficLog::Ended(int64_t prompt_tokens, int64_t output_tokens) {
  if (prompt_tokens < 1 || output_tokens < 1) return;  // aborted before its first token
  absl::MutexLock lock(&mutex_);
  report_.prompt.Observe(prompt_tokens);
  report_.output.Observe(output_tokens);
  report_.total.Observe(prompt_tokens + output_tokens);
}

TrafficReport TrafficLog::report() const {
  absl::MutexLock lock(&mutex_);
  TrafficReport report = report_;
  report.busiest_per_second =
      std::max(static_cast<double>(most_in_minute_) / 60, report.per_second());
  return report;
}

}  // namespace octavo
