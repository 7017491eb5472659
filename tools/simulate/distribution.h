// Percentiles of very many values in bounded memory.
#ifndef OCTAVO_TOOLS_SIMULATE_DISTRIBUTION_H_
#define OCTAVO_TOOLS_SIMULATE_DISTRIBUTION_H_

#include <cstdint>
#include <vector>

namespace octavo::simulate {

// Buckets whose bounds grow by 0.5 %, from 1e-9 on: percentiles are right within 0.25 %; mean,
// least and most are exact. Values below the first bucket count as 0.
class Distribution {
 public:
  void Add(double value);

  int64_t count() const { return count_; }
  double mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }
  double least() const { return count_ == 0 ? 0 : least_; }
  double most() const { return count_ == 0 ? 0 : most_; }
  // The value that `share` of all do not exceed, in [0, 1]; 0 when there are none.
  double Percentile(double share) const;

 private:
  std::vector<int64_t> buckets_;
  int64_t zeros_ = 0;
  int64_t count_ = 0;
  double sum_ = 0;
  double least_ = 0;
  double most_ = 0;
};

}  // namespace octavo::simulate

#endif  // OCTAVO_TOOLS_SIMULATE_DISTRIBUTION_H_
