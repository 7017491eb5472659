#include "scheduler/transport/engine_errors.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/rpc/error_details.h"

namespace octavo {
namespace {

constexpr absl::Duration kShortest = absl::Milliseconds(100);
constexpr absl::Duration kLongest = absl::Seconds(30);
constexpr absl::Duration kUnknown = absl::Seconds(1);

}  // namespace

absl::Duration RetryDelay(const EngineSnapshot& snapshot) {
  const Histogram& ended = snapshot.latencies.end_to_end;
  if (ended.count() == 0) return kUnknown;
  const double mean_seconds = ended.sum() / static_cast<double>(ended.count());
  const double at_once = static_cast<double>(std::max<int64_t>(snapshot.stats.running, 1));
  return std::clamp(absl::Seconds(mean_seconds / at_once), kShortest, kLongest);
}

absl::Status WithAdvice(absl::Status error, const EngineSnapshot& snapshot) {
  switch (error.code()) {
    case absl::StatusCode::kUnavailable:
      return WithRetryDelay(std::move(error), kUnknown);
    case absl::StatusCode::kResourceExhausted: {
      const std::string message(error.message());
      return WithRetryDelay(WithQuotaFailure(std::move(error), "queue", message),
                            RetryDelay(snapshot));
    }
    default:
      return error;
  }
}

}  // namespace octavo
