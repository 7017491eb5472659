// Passes over one row of logits, 16 at a time.
#ifndef OCTAVO_WORKER_CPU_LOGIT_SCAN_H_
#define OCTAVO_WORKER_CPU_LOGIT_SCAN_H_

#include <cstdint>
#include <span>
#include <vector>

#include "common/ids.h"

namespace octavo {

struct Candidate {
  float logit = 0;
  float weight = 0;  // exp((logit - max) / temperature), a multiple of 2^-44
  TokenId token = 0;
};

// More likely first; equal logits by lower id.
inline bool MoreLikely(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

// The largest logit, and the largest of every 16 consecutive ones.
struct LogitMaxima {
  static constexpr int32_t kGroup = 16;

  // False when a logit is NaN or +infinity, or none is finite.
  bool Scan(std::span<const float> logits);
  TokenId ArgMax(std::span<const float> logits) const;  // the lowest id on ties
  // A value that at least `count` logits reach, and few more; -infinity when that takes a sort.
  float LowerBoundOfLargest(int64_t count);

  float max = 0;
  std::vector<float> group_max;
  std::vector<float> order;  // working memory of LowerBoundOfLargest
};

// Logits are weighted as SamplingWeight (sampling_math.h) says, scale = log2(e) / temperature;
// -infinity weighs 0. Sums are in units of 2^-44 and exact.
struct LogitWeights {
  LogitWeights(float max, float temperature);

  // Adds up the weights; block_sums: of every kBlock logits in order of id.
  uint64_t Sum(std::span<const float> logits, std::vector<uint64_t>* block_sums = nullptr) const;
  // out[i] = weight of logits[i], the same bits as in Sum.
  void Of(std::span<const float> logits, float* out) const;
  void Weigh(std::span<Candidate> candidates) const;

  static constexpr int64_t kBlock = 256;

  float max;
  float scale;
};

// Tokens whose logit is >= bound and finite, in order of id; weights are not set.
void CollectAtLeast(std::span<const float> logits, const LogitMaxima& maxima, float bound,
                    std::vector<Candidate>* candidates);

}  // namespace octavo

#endif  // OCTAVO_WORKER_CPU_LOGIT_SCAN_H_
