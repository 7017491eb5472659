// Errors of the CUDA libraries as absl::Status.
#ifndef OCTAVO_WORKER_CUDA_CUDA_STATUS_H_
#define OCTAVO_WORKER_CUDA_CUDA_STATUS_H_

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace octavo::cuda {

// OK for success. RESOURCE_EXHAUSTED where memory ran out, FAILED_PRECONDITION where there is no
// usable card or driver, INTERNAL for all else: after those a context is often lost. `what` is the
// call, and comes first in the message.
absl::Status ToStatus(cudaError_t error, absl::string_view what);
absl::Status ToStatus(cublasStatus_t status, absl::string_view what);

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_CUDA_STATUS_H_
