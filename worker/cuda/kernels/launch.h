// What the launch functions of all kernels share on the host: checks of limits, and errors.
#ifndef OCTAVO_WORKER_CUDA_KERNELS_LAUNCH_H_
#define OCTAVO_WORKER_CUDA_KERNELS_LAUNCH_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace octavo::cuda {

// INVALID_ARGUMENT "<what> is <value>; it must be between <min> and <max>" unless it is.
absl::Status CheckRange(absl::string_view what, int64_t value, int64_t min, int64_t max);
// INVALID_ARGUMENT unless `value` is a positive multiple of `factor`.
absl::Status CheckMultiple(absl::string_view what, int64_t value, int64_t factor);

// OK for cudaSuccess, else INTERNAL with the shape of the launch.
absl::Status LaunchStatus(cudaError_t error, dim3 grid, dim3 block, size_t shared_bytes);

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_KERNELS_LAUNCH_H_
