// The one way to launch a kernel, the same for nvcc and for the emulated build.
#ifndef OCTAVO_WORKER_CUDA_KERNELS_LAUNCH_CUH_
#define OCTAVO_WORKER_CUDA_KERNELS_LAUNCH_CUH_

#ifdef OCTAVO_EMULATION
#include <tuple>
#include <type_traits>
#else
#include <cuda_runtime.h>
#endif

#include <utility>

#include "worker/cuda/kernels/launch.h"

namespace octavo::cuda {

inline constexpr size_t kDefaultSharedBytes = 48 * 1024;  // what a kernel may use without asking

// Arguments are converted to the kernel's parameter types and copied; the call does not wait.
template <class... Parameters, class... Arguments>
absl::Status Launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
                    cudaStream_t stream, Arguments&&... arguments) {
#ifdef OCTAVO_EMULATION
  auto copied = std::make_tuple(std::decay_t<Parameters>(std::forward<Arguments>(arguments))...);
  const cudaError_t error = emulation::Submit(stream, [=] {
    emulation::RunGrid(reinterpret_cast<const void*>(kernel), grid, block, shared_bytes,
                       [&] { std::apply(kernel, copied); });
  });
#else
  cudaError_t error = cudaSuccess;
  if (shared_bytes > kDefaultSharedBytes)
    error = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                 cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(shared_bytes));
  if (error == cudaSuccess) {
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    error = cudaLaunchKernelEx(&config, kernel, Parameters(std::forward<Arguments>(arguments))...);
  }
#endif
  return LaunchStatus(error, grid, block, shared_bytes);
}

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_KERNELS_LAUNCH_CUH_
