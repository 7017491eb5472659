// Elements of the paged cache as operands of the tensor cores: how four matrices of a raw piece
// (paged_kv.cuh) become fragments of mma.m16n8k16, for each type of the cache.
//
// 16-bit types are used as they are. 8-bit types become fp16, which holds each of their values
// exactly, by integer instructions that every architecture has (the conversion of fp8 in hardware
// needs sm_89):
//   int8       code ^ 128 under the exponent of 1024, less 1152; the scale of a token multiplies
//              its finished score, and its p before that is rounded
//   fp8_e5m2   the upper half of an fp16
//   fp8_e4m3   exponent and mantissa one bit down: the value times 2^-8, subnormal ones included.
//              Infinity does not exist; a NaN becomes 480, unlike on the CPU
// ldmatrix moves pairs of bytes, so a lane gets four neighbouring bytes of a row (or two of each of
// two rows) where a fragment wants two and two that are eight apart. The order of the k dimension
// is free as long as both operands have it, and that of d in the result is known when it is stored:
// QueryElement and OutputElement say which d an operand's place holds.
#ifndef OCTAVO_WORKER_CUDA_KERNELS_ELEMENT_CUH_
#define OCTAVO_WORKER_CUDA_KERNELS_ELEMENT_CUH_

#include <cstdint>

#include "common/dtype.h"
#include "worker/cuda/kernels/ptx.cuh"

namespace octavo::cuda {

// Bytes i and j of a word in the upper halves of two fp16.
template <int kI, int kJ>
__device__ __forceinline__ uint32_t SpreadHigh(uint32_t word) {
  return __byte_perm(word, 0u, kJ << 12 | 4 << 8 | kI << 4 | 4);
}

// Two of the four 8-bit elements of a word as fp16, the first in the lower half.
template <DType kType, int kI, int kJ>
__device__ __forceinline__ uint32_t WidenPair(uint32_t word) {
  if constexpr (kType == DType::kF8E5M2) {
    return SpreadHigh<kI, kJ>(word);
  } else if constexpr (kType == DType::kF8E4M3) {
    const uint32_t high = SpreadHigh<kI, kJ>(word);
    return (high & 0x80008000u) | ((high & 0x7f007f00u) >> 1);
  } else {
    static_assert(kType == DType::kI8);
    const uint32_t biased =
        __byte_perm(word ^ 0x80808080u, 0x64646464u, 4 << 12 | kJ << 8 | 4 << 4 | kI);
    return ptx::sub_f16x2(biased, 0x64806480u);  // 1024 + code + 128, less 1152
  }
}

template <DType kType>
struct Element {
  static constexpr bool kEightBit =
      kType == DType::kI8 || kType == DType::kF8E4M3 || kType == DType::kF8E5M2;
  static constexpr bool kScaled = kType == DType::kI8;
  static constexpr int kBytes = kEightBit ? 1 : 2;
  // 16 elements of d that a raw piece of two chunks holds: 1 or 2 k-steps of the tensor cores.
  static constexpr int kStepsPerPiece = kEightBit ? 2 : 1;
  // Fragments hold values times 1 / kFactor.
  static constexpr float kFactor = kType == DType::kF8E4M3 ? 256.0f : 1.0f;
  // Of int8, p times the scale of a token's values is rounded to fp16, whose normal numbers end at
  // 6e-5 where scales of 1e-3 are usual: it is kept times this, up to scales of 255.
  static constexpr float kProbabilityFactor = kScaled ? 256.0f : 1.0f;
  static constexpr float kOutputFactor = kFactor / kProbabilityFactor;

  // Two floats as the tensor cores take them beside this type, the first in the lower half.
  static __device__ __forceinline__ uint32_t Pack(float low, float high) {
    if constexpr (kType == DType::kBF16)
      return ptx::pack_bf16(low, high);
    else
      return ptx::pack_f16(low, high);
  }

  static __device__ __forceinline__ void Mma(float (&d)[4], const uint32_t (&a)[4],
                                             const uint32_t (&b)[2]) {
    if constexpr (kType == DType::kBF16)
      ptx::mma_bf16(d, a, b);
    else
      ptx::mma_f16(d, a, b);
  }

  // The d, within a step of 16, of the lower element in register `i` (0, 1) of the k dimension, of
  // a lane with t = lane % 4; the upper one is the next.
  static __device__ __forceinline__ constexpr int QueryElement(int i, int t) {
    return kEightBit ? 4 * t + 2 * i : 8 * i + 2 * t;
  }
  // The d, within a step of 16, of index `m` (0 to 15) of the output's d dimension.
  static __device__ __forceinline__ constexpr int OutputElement(int m) {
    return kEightBit ? 2 * (m % 8) + m / 8 : m;
  }

  // Of a raw piece of keys (rows are tokens): tokens x d, step `step` of the piece, as operand A.
  static __device__ __forceinline__ void KeysA(const uint32_t (&raw)[4], int step,
                                               uint32_t (&a)[4]) {
    if constexpr (kEightBit) {
      a[0] = WidenPair<kType, 0, 1>(raw[2 * step]);
      a[1] = WidenPair<kType, 0, 1>(raw[2 * step + 1]);
      a[2] = WidenPair<kType, 2, 3>(raw[2 * step]);
      a[3] = WidenPair<kType, 2, 3>(raw[2 * step + 1]);
    } else {
      for (int i = 0; i < 4; ++i) a[i] = raw[i];
    }
  }
  // The same as operand B for tokens 8 tokens .. 8 tokens + 7 of the piece.
  static __device__ __forceinline__ void KeysB(const uint32_t (&raw)[4], int step, int tokens,
                                               uint32_t (&b)[2]) {
    if constexpr (kEightBit) {
      b[0] = WidenPair<kType, 0, 1>(raw[2 * step + tokens]);
      b[1] = WidenPair<kType, 2, 3>(raw[2 * step + tokens]);
    } else {
      b[0] = raw[tokens];
      b[1] = raw[2 + tokens];
    }
  }
  // Of a raw transposed piece of values: d x tokens as operand A.
  static __device__ __forceinline__ void ValuesA(const uint32_t (&raw)[4], int step,
                                                 uint32_t (&a)[4]) {
    if constexpr (kEightBit) {
      a[0] = WidenPair<kType, 0, 2>(raw[2 * step]);
      a[1] = WidenPair<kType, 1, 3>(raw[2 * step]);
      a[2] = WidenPair<kType, 0, 2>(raw[2 * step + 1]);
      a[3] = WidenPair<kType, 1, 3>(raw[2 * step + 1]);
    } else {
      a[0] = raw[0];
      a[1] = raw[2];
      a[2] = raw[1];
      a[3] = raw[3];
    }
  }
  // The same as operand B, tokens x d, for indices 8 half .. 8 half + 7 of the step's d dimension.
  static __device__ __forceinline__ void ValuesB(const uint32_t (&raw)[4], int step, int half,
                                                 uint32_t (&b)[2]) {
    if constexpr (kEightBit) {
      b[0] =
          half == 0 ? WidenPair<kType, 0, 2>(raw[2 * step]) : WidenPair<kType, 1, 3>(raw[2 * step]);
      b[1] = half == 0 ? WidenPair<kType, 0, 2>(raw[2 * step + 1])
                       : WidenPair<kType, 1, 3>(raw[2 * step + 1]);
    } else {
      b[0] = raw[2 * half];
      b[1] = raw[2 * half + 1];
    }
  }
};

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_KERNELS_ELEMENT_CUH_
