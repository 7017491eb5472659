// Tiny wrong kernels, one per check of the emulation.
#ifndef OCTAVO_TESTS_EMULATION_DEFECTS_H_
#define OCTAVO_TESTS_EMULATION_DEFECTS_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace octavo::cuda {

// Runs the kernel of that name: one block of 64 threads, 4 KiB of shared memory, `data` [64].
absl::Status LaunchDefect(absl::string_view name, float* data, cudaStream_t stream);

}  // namespace octavo::cuda

#endif  // OCTAVO_TESTS_EMULATION_DEFECTS_H_
