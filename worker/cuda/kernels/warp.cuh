// A warp's number, and reductions over a warp and over a block: all lanes get the result; the order
// of sums is fixed.
#ifndef OCTAVO_WORKER_CUDA_KERNELS_WARP_CUH_
#define OCTAVO_WORKER_CUDA_KERNELS_WARP_CUH_

#include <cstdint>

#include "worker/cuda/kernels/plant.cuh"

namespace octavo::cuda {

inline constexpr int kWarpSize = 32;
inline constexpr uint32_t kAllLanes = 0xffffffffu;

// Of this warp in its block. One lane tells the others: the compiler then knows that all have the
// same, keeps what follows from it in uniform registers, and branches on it without the calls that
// collectives need where lanes may have parted. All lanes of the warp call this.
__device__ __forceinline__ int WarpIndex() {
  return __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x) / kWarpSize, 0);
}

template <class T>
__device__ __forceinline__ T WarpSum(T value) {
#pragma unroll
  for (int offset = kWarpSize / 2; offset > 0; offset /= 2)
    value += __shfl_xor_sync(kAllLanes, value, offset);
  return value;
}

template <class T>
__device__ __forceinline__ T WarpMax(T value) {
#pragma unroll
  for (int offset = kWarpSize / 2; offset > 0; offset /= 2) {
    const T other = __shfl_xor_sync(kAllLanes, value, offset);
    value = other > value ? other : value;
  }
  return value;
}

// Over a block whose size is a multiple of 32. `partials` is shared memory of one T per warp, which
// nobody may touch between the call and the next barrier of the caller's.
template <class T>
__device__ __forceinline__ T BlockSum(T value, T* partials) {
  value = WarpSum(value);
  if (threadIdx.x % kWarpSize == 0) partials[threadIdx.x / kWarpSize] = value;
  OCTAVO_UNLESS_PLANTED("warp.block_sum", __syncthreads());
  T sum = partials[0];
  for (int i = 1; i < static_cast<int>(blockDim.x) / kWarpSize; ++i) sum += partials[i];
  return sum;
}

template <class T>
__device__ __forceinline__ T BlockMax(T value, T* partials) {
  value = WarpMax(value);
  if (threadIdx.x % kWarpSize == 0) partials[threadIdx.x / kWarpSize] = value;
  OCTAVO_UNLESS_PLANTED("warp.block_max", __syncthreads());
  T best = partials[0];
  for (int i = 1; i < static_cast<int>(blockDim.x) / kWarpSize; ++i)
    best = partials[i] > best ? partials[i] : best;
  return best;
}

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_KERNELS_WARP_CUH_
