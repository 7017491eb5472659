// Codes of 4 and 8 bits as operand A of mma.m16n8k16, exactly, in integer instructions and one
// addition a pair. quant_layout.h says which code is where.
//   4 bits  a nibble in the low bits of a bf16's mantissa under the exponent of 128 is 128 + code
//   8 bits  the low seven bits likewise; the sign bit there makes 128 or 256, which is taken off
#ifndef OCTAVO_WORKER_CUDA_KERNELS_QUANT_CODES_CUH_
#define OCTAVO_WORKER_CUDA_KERNELS_QUANT_CODES_CUH_

#include <cuda_fp16.h>

#include <cstdint>

#include "worker/cuda/kernels/ptx_pairs.cuh"
#include "worker/cuda/kernels/quant_layout.h"

namespace octavo::cuda {

template <int kBits, bool kMin>
struct QuantCodes {
  static constexpr int kCodeBytes = QuantCodeBytes(kBits);
  static constexpr int kUnitBytes = QuantUnitBytes(kBits, kMin);
  static constexpr int kLaneWords = kBits / 2;  // of a unit

  // Product f (0, 1) of a lane's words.
  static __device__ __forceinline__ void Widen(const uint32_t (&words)[kLaneWords], int f,
                                               uint32_t (&a)[4]) {
    if constexpr (kBits == 4) {
      constexpr uint32_t kZero = kMin ? 0xc300c300u : 0xc308c308u;  // -128 or -136, twice
#pragma unroll
      for (int j = 0; j < 4; ++j)
        a[j] = ptx::add_bf16x2(ptx::and_or(words[f] >> 4 * j, 0x000f000fu, 0x43004300u), kZero);
    } else {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const uint32_t pair = words[2 * f + j / 2] >> 8 * (j % 2);
        a[j] = ptx::add_bf16x2(ptx::and_or(pair, 0x007f007fu, 0x43004300u),
                               ptx::and_or(pair, 0x00800080u, 0xc300c300u));
      }
    }
  }

  // A lane's words of a unit, in global or shared memory.
  static __device__ __forceinline__ void Load(const std::byte* unit, int lane,
                                              uint32_t (&words)[kLaneWords]) {
    if constexpr (kBits == 4) {
      const uint2 both = *reinterpret_cast<const uint2*>(unit + lane * 8);
      words[0] = both.x, words[1] = both.y;
    } else {
      const uint4 all = *reinterpret_cast<const uint4*>(unit + lane * 16);
      words[0] = all.x, words[1] = all.y, words[2] = all.z, words[3] = all.w;
    }
  }

  // Scales and minima of rows g and g + 8.
  static __device__ __forceinline__ void LoadScales(const std::byte* unit, int g, float (&scale)[2],
                                                    float (&min)[2]) {
    if constexpr (kMin) {
      const uint2 both = *reinterpret_cast<const uint2*>(unit + kCodeBytes + g * 8);
      Split(both.x, scale);
      Split(both.y, min);
    } else {
      Split(*reinterpret_cast<const uint32_t*>(unit + kCodeBytes + g * 4), scale);
      min[0] = min[1] = 0.0f;
    }
  }

 private:
  static __device__ __forceinline__ void Split(uint32_t halves, float (&out)[2]) {
    out[0] = __half2float(__ushort_as_half(static_cast<uint16_t>(halves)));
    out[1] = __half2float(__ushort_as_half(static_cast<uint16_t>(halves >> 16)));
  }
};

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_KERNELS_QUANT_CODES_CUH_
