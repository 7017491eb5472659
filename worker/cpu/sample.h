// Choosing tokens from logits. docs/sampling.md has the formulas.
#ifndef OCTAVO_WORKER_CPU_SAMPLE_H_
#define OCTAVO_WORKER_CPU_SAMPLE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/backend/op_params.h"
#include "worker/cpu/logit_scan.h"
#include "worker/cpu/thread_pool.h"

namespace octavo {

// Samples one row at a time; keeps its working memory. One per thread.
class RowSampler {
 public:
  // A result depends on the logits and `row` only (det.2). INTERNAL when a logit is NaN or
  // +infinity, or none is finite. REQUIRES: row.sampling is valid (Validate).
  absl::StatusOr<SampleOutput> Sample(std::span<const float> logits, const SampleRow& row);

  // Tokens that the filters leave, in order of id, with their weights relative to the most likely.
  // REQUIRES: temperature > 0 and logits that Sample accepts.
  std::span<const Candidate> Survivors(std::span<const float> logits,
                                       const SamplingParams& sampling);

 private:
  void Filter(std::span<const float> logits, const SamplingParams& sampling,
              const LogitWeights& weights);
  void KeepMostLikely(std::span<const float> logits, int64_t count);
  void KeepMass(uint64_t mass);
  uint64_t NarrowToCut(uint64_t mass);
  TokenId Draw(std::span<const float> logits, const SampleRow& row);
  TokenId DrawUnfiltered(std::span<const float> logits, const LogitWeights& weights,
                         uint64_t random);
  void FillLogprobs(std::span<const float> logits, int32_t num_top, SampleOutput* output);

  LogitMaxima maxima_;  // of the current row
  std::vector<Candidate> candidates_;
  std::vector<Candidate> order_;
  std::vector<uint64_t> block_sums_;
};

// Spreads the rows over the pool's threads. Owned and called by the pool's owner.
class Sampler {
 public:
  explicit Sampler(ThreadPool& pool)
      : pool_(pool),
        threads_(static_cast<size_t>(pool.size())),
        statuses_(static_cast<size_t>(pool.size())) {}

  // INVALID_ARGUMENT when rows and logits do not match or a row's parameters are out of range;
  // INTERNAL naming the first row whose logits are not numbers.
  absl::Status Run(const SampleParams& params);

 private:
  ThreadPool& pool_;
  std::vector<RowSampler> threads_;
  std::vector<absl::Status> statuses_;  // of each thread's first bad row
};

}  // namespace octavo

#endif  // OCTAVO_WORKER_CPU_SAMPLE_H_
