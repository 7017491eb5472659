#include "tools/simulate/distribution.h"

#include <algorithm>
#include <cmath>

namespace octavo::simulate {
namespace {

constexpr double kFirst = 1e-9;
constexpr size_t kMostBuckets = 1 << 14;  // up to 1e26
const double kLogGrowth = std::log(1.005);

}  // namespace

void Distribution::Add(double value) {
  least_ = count_ == 0 ? value : std::min(least_, value);
  most_ = count_ == 0 ? value : std::max(most_, value);
  ++count_;
  sum_ += value;
  if (!(value >= kFirst)) {
    ++zeros_;
    return;
  }
  const size_t bucket =
      std::min(static_cast<size_t>(std::log(value / kFirst) / kLogGrowth), kMostBuckets - 1);
  if (bucket >= buckets_.size()) buckets_.resize(bucket + 1);
  ++buckets_[bucket];
}

double Distribution::Percentile(double share) const {
  if (count_ == 0) return 0;
  const int64_t rank =
      std::max<int64_t>(1, static_cast<int64_t>(std::ceil(share * static_cast<double>(count_))));
  int64_t below = zeros_;
  if (below >= rank) return std::max(0.0, least_);
  for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    below += buckets_[bucket];
    if (below < rank) continue;
    const double middle = kFirst * std::exp((static_cast<double>(bucket) + 0.5) * kLogGrowth);
    return std::clamp(middle, least_, most_);
  }
  return most_;
}

}  // namespace octavo::simulate
