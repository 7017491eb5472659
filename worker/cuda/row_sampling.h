// The host's side of sampling on the device: what a row's parameters are to the kernel, and what
// the kernel's results are to the port.
#ifndef OCTAVO_WORKER_CUDA_ROW_SAMPLING_H_
#define OCTAVO_WORKER_CUDA_ROW_SAMPLING_H_

#include "absl/status/statusor.h"
#include "worker/backend/op_params.h"
#include "worker/cuda/kernels/sampling.h"

namespace octavo::cuda {

// The random number is drawn here (common/philox.h): it depends on what the host knows before the
// step, and not on the logits. REQUIRES: row.sampling is valid (CheckSampleParams).
SamplingRowArgs RowArgsOf(const SampleRow& row);

// `row` and `top`, [row.num_top], as the kernel left them for `args`. INTERNAL when the logits are
// not numbers.
absl::StatusOr<SampleOutput> OutputOf(const SampledRow& row, const TopLogit* top,
                                      const SamplingRowArgs& args);

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_ROW_SAMPLING_H_
