// The scale of a row of e4m3 codes: its largest magnitude becomes 448, the largest number of e4m3
// (OCP 8-bit Floating Point Specification, revision 1.0).
#ifndef OCTAVO_WORKER_CUDA_KERNELS_ROW_SCALE_CUH_
#define OCTAVO_WORKER_CUDA_KERNELS_ROW_SCALE_CUH_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "worker/cuda/kernels/row_access.cuh"

namespace octavo::cuda {

inline constexpr float kLargestE4m3 = 448.0f;

// Magnitudes are compared as bits, where infinity is above all numbers and NaN above that: neither
// can be lost, whatever the order.
__device__ __forceinline__ void WidenRange(const float (&v)[kRowStep], uint32_t& largest) {
#pragma unroll
  for (int i = 0; i < kRowStep; ++i) {
    const uint32_t magnitude = __float_as_uint(v[i]) & 0x7fffffffu;
    largest = magnitude > largest ? magnitude : largest;
  }
}

// What 448 stands for. Never so small that 448 / range overflows: rows of zeros have codes 0. Of a
// row with an infinity the codes of its numbers are 0 and its own is NaN; of one with a NaN all
// are.
__device__ __forceinline__ float RangeOf(uint32_t largest) {
  const float magnitude = __uint_as_float(largest);
  return magnitude < 1e-30f ? 1e-30f : magnitude;
}

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_KERNELS_ROW_SCALE_CUH_
