// Choosing tokens from rows of logits, on the device: the same tokens as the CPU backend from the
// same logits (worker/backend/sampling_math.h). docs/sampling.md has the formulas.
#ifndef OCTAVO_WORKER_CUDA_KERNELS_SAMPLING_H_
#define OCTAVO_WORKER_CUDA_KERNELS_SAMPLING_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"

namespace octavo::cuda {

// One row's parameters as the kernel reads them; worker/cuda/row_sampling.h makes them from a
// SampleRow.
struct alignas(16) SamplingRowArgs {
  uint64_t random = 0;        // SamplingRandom of the row
  double min_p_reach = 0;     // MinPReach; -infinity: off
  float scale = 0;            // WeightScale of the temperature; 0: greedy
  float top_p = 1;            // 1: off
  int32_t top_k = 0;          // 0: off
  int32_t target = -1;        // >= 0: report this token instead of choosing one
  int32_t num_logprobs = -1;  // -1: none; 0: of the token; n: and of the n most likely
  int32_t unused[3] = {};
};
static_assert(sizeof(SamplingRowArgs) == 48);

// What is left of a row; row_sampling.h makes a SampleOutput of it.
struct alignas(16) SampledRow {
  int32_t token = 0;   // 0 where the logits are bad
  int32_t bad = 0;     // 1: a logit is NaN or +infinity, or none is finite
  float max = 0;       // the largest logit
  float logit = 0;     // the token's
  uint64_t total = 0;  // of num_logprobs >= 0: the weights at scale WeightScale(1), in units
  int32_t num_top = 0;
  int32_t unused = 0;
};
static_assert(sizeof(SampledRow) == 32);

struct TopLogit {
  int32_t token = 0;
  float logit = 0;
};

// Device memory that holds what the rows become, read back by one copy: SampledRow of every row,
// then max_top TopLogit of every row, most likely first.
constexpr size_t SampledBytes(int64_t rows, int32_t max_top) {
  return static_cast<size_t>(rows) *
         (sizeof(SampledRow) + static_cast<size_t>(max_top) * sizeof(TopLogit));
}

// All pointers are device memory.
struct SamplingArgs {
  const float* logits = nullptr;  // [rows, vocabulary]
  int64_t stride = 0;             // in elements
  int32_t rows = 0;
  int32_t vocabulary = 0;
  const SamplingRowArgs* row_args = nullptr;  // [rows]
  int32_t max_top = 0;                        // the largest num_logprobs of the rows, up to 64
  std::byte* sampled = nullptr;               // SampledBytes(rows, max_top), 16-byte aligned
  int32_t* tokens = nullptr;                  // [rows], what the next step is fed; or nullptr
};

// INVALID_ARGUMENT with value and limit. REQUIRES: row_args from row_sampling.h.
absl::Status LaunchSampling(const SamplingArgs& args, cudaStream_t stream);

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_KERNELS_SAMPLING_H_
