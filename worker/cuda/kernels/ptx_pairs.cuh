// PTX on pairs of 16-bit elements in one register, as in ptx.cuh.
#ifndef OCTAVO_WORKER_CUDA_KERNELS_PTX_PAIRS_CUH_
#define OCTAVO_WORKER_CUDA_KERNELS_PTX_PAIRS_CUH_

#include <cstdint>

#include "worker/cuda/kernels/ptx.cuh"

namespace octavo::cuda::ptx {

// a + b of two bf16 each, rounded to nearest even; as a * 1 + b, because add.bf16x2 needs sm_90.
// The intrinsic takes halves, which costs two instructions to put back together.
__device__ __forceinline__ uint32_t add_bf16x2(uint32_t a, uint32_t b) {
#ifdef OCTAVO_EMULATION
  const float2 x = unpack_bf16(a), y = unpack_bf16(b);
  return pack_bf16(x.x + y.x, x.y + y.y);
#else
  uint32_t result;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(0x3f803f80u), "r"(b));
  return result;
#endif
}

// value & mask | bits, in one instruction: ptxas makes two of it where both are constants.
__device__ __forceinline__ uint32_t and_or(uint32_t value, uint32_t mask, uint32_t bits) {
#ifdef OCTAVO_EMULATION
  return (value & mask) | bits;
#else
  uint32_t result;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(result) : "r"(value), "r"(mask), "r"(bits));
  return result;
#endif
}

}  // namespace octavo::cuda::ptx

#endif  // OCTAVO_WORKER_CUDA_KERNELS_PTX_PAIRS_CUH_
