// Sampling on the device: parameters go there and choices come back in one copy each.
#ifndef OCTAVO_WORKER_CUDA_CUDA_SAMPLER_H_
#define OCTAVO_WORKER_CUDA_CUDA_SAMPLER_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/backend/buffer.h"
#include "worker/backend/op_params.h"
#include "worker/cuda/kernels/sampling.h"
#include "worker/cuda/staging.h"

namespace octavo::cuda {

// Owned and called by the thread that owns the stream.
class CudaSampler {
 public:
  static absl::StatusOr<std::unique_ptr<CudaSampler>> Create();
  ~CudaSampler();
  CudaSampler(const CudaSampler&) = delete;
  CudaSampler& operator=(const CudaSampler&) = delete;

  // Device bytes that Reserve takes.
  int64_t WorkspaceBytes(const LargestStep& limits) const;
  absl::Status Reserve(const LargestStep& limits);

  // Starts sampling. `params.out` is filled by Finish, and must stay until then. INVALID_ARGUMENT
  // for parameters that are out of range.
  absl::Status Run(const SampleParams& params, Staging& staging, cudaStream_t stream);
  // Waits for what Run started, and for that only. INTERNAL naming the first row whose logits are
  // not numbers.
  absl::Status Finish();

 private:
  CudaSampler() = default;

  Buffer row_args_;  // [max_sampled] SamplingRowArgs
  Buffer sampled_;   // SampledBytes(max_sampled, kMaxStepLogprobs)
  Buffer host_;      // as sampled_; pinned
  cudaEvent_t copied_ = nullptr;

  // Of the call that Finish answers.
  std::vector<SampleOutput>* out_ = nullptr;
  std::vector<SamplingRowArgs> args_;
  int32_t max_top_ = 0;
};

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_CUDA_SAMPLER_H_
