// Sampling on the device: parameters go there and choices come back in one copy each.
#ifndef OCTAVO_WORKER_CUDA_CUDA_SAMPLER_H_
#define OCTAVO_WORKER_CUDA_CUDA_SAMPLER_H_

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/status/status.h"
#include "worker/backend/buffer.h"
#include "worker/backend/op_params.h"
#include "worker/cuda/kernels/sampling.h"
#include "worker/cuda/staging.h"

namespace octavo::cuda {

// Owned and called by the thread that owns the stream.
class CudaSampler {
 public:
  // Device bytes that Reserve takes.
  int64_t WorkspaceBytes(const LargestStep& limits) const;
  absl::Status Reserve(const LargestStep& limits);

  // Starts sampling. `params.out` is filled by Finish, and must stay until then. INVALID_ARGUMENT
  // for parameters that are out of range; FAILED_PRECONDITION when two runs are unfinished.
  absl::Status Run(const SampleParams& params, Staging& staging, cudaStream_t stream);
  // Fills what the oldest unfinished run was given, if there is one. INTERNAL naming the first row
  // whose logits are not numbers. REQUIRES: the run's work on the stream is complete.
  absl::Status Finish();
  bool unfinished() const { return !runs_.empty(); }

  // Device, [max_tokens()]: what the rows of the last run sample.
  const int32_t* tokens() const { return tokens_.as<int32_t>(); }
  int32_t max_tokens() const { return static_cast<int32_t>(tokens_.bytes() / sizeof(int32_t)); }

 private:
  struct Started {
    std::vector<SampleOutput>* out = nullptr;
    std::vector<SamplingRowArgs> args;
    int32_t max_top = 0;
    int place = 0;  // in host_
  };

  // The device's memory serves one run after the other, in the order of the stream.
  Buffer row_args_;             // [max_sampled] SamplingRowArgs
  Buffer sampled_;              // SampledBytes(max_sampled, kMaxStepLogprobs)
  Buffer tokens_;               // [max_sampled]
  std::array<Buffer, 2> host_;  // each as sampled_; pinned
  std::deque<Started> runs_;    // unfinished, oldest first
  int next_place_ = 0;
};

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_CUDA_SAMPLER_H_
