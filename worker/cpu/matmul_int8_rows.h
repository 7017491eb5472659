// What the int8 products read: prepared rows, and weights as unsigned bytes. Compiled for AVX-512
// with VNNI (matmul_int8.cc).
#ifndef OCTAVO_WORKER_CPU_MATMUL_INT8_ROWS_H_
#define OCTAVO_WORKER_CPU_MATMUL_INT8_ROWS_H_

#include <cstdint>

#include "worker/cpu/packed_format.h"
#include "worker/cpu/simd_bits.h"

namespace octavo::OCTAVO_SIMD {

// One prepared row, in the floats that preparation has for it.
struct QuantRow {
  QuantRow(const float* record, int64_t k_blocks)
      : q(reinterpret_cast<const int8_t*>(record)),
        scales(record + k_blocks * kBlockK / 4),
        scaled_sums(scales + k_blocks),
        sums(reinterpret_cast<const int32_t*>(scaled_sums + k_blocks)) {}
  const int8_t* q;
  const float* scales;
  const float* scaled_sums;
  const int32_t* sums;
};

// Weights as unsigned bytes q + kBias: inputs [8 j, 8 j + 8) of half h, four of them per register.
template <PackFormat kFormat>
struct ByteWeights {
  static constexpr PackLayout kLayout = LayoutOf(kFormat);
  static constexpr bool kNibbles = kFormat != PackFormat::kQ8_0;
  static constexpr bool kHasMin = kFormat == PackFormat::kQ4_1;
  static constexpr int kBias = kFormat == PackFormat::kQ8_0   ? 128
                               : kFormat == PackFormat::kQ4_0 ? 8
                                                              : 0;
  static constexpr int64_t kScaleOffset = kNibbles ? 512 : 1024;

  OCTAVO_SIMD_INLINE void Load(const uint8_t* block, int j, int h, Bits& first, Bits& second) {
    if constexpr (kNibbles) {
      const Bits both = LoadBits(block + j * 128 + h * 64);
      first = And(both, SetBits(0x0F0F0F0Fu));
      second = And(ShiftRight<4>(both), SetBits(0x0F0F0F0Fu));
    } else {
      first = LoadBits(block + j * 256 + h * 64);
      second = LoadBits(block + j * 256 + h * 64 + 128);
    }
  }
};

// What an integer sum over a block starts from, so that the bias of the weights cancels.
template <int kBias>
OCTAVO_SIMD_INLINE Bits SumStart(const QuantRow& row, int64_t block) {
  if constexpr (kBias == 0) return SetBits(0);
  return SetBits(static_cast<uint32_t>(-kBias * row.sums[block]));
}

// acc += the dot products of four unsigned and four signed bytes per lane. In acc's own register:
// GCC 12 copies the accumulator around the intrinsic.
OCTAVO_SIMD_INLINE void Dot(Bits& acc, Bits unsigned_bytes, Bits signed_bytes) {
  asm("vpdpbusd %2, %1, %0" : "+v"(acc.v) : "v"(unsigned_bytes.v), "v"(signed_bytes.v));
}

OCTAVO_SIMD_INLINE Bits FourBytes(const int8_t* p) {
  int32_t four;
  __builtin_memcpy(&four, p, 4);
  return {_mm512_set1_epi32(four)};
}

// The one float sequence of every path: acc [2] of a row takes a block's integer sums.
template <bool kHasMin>
OCTAVO_SIMD_INLINE void FoldSums(Vec& acc, Bits sum, Vec d, Vec m, const QuantRow& row,
                                 int64_t block) {
  MulAdd(acc, ToFloat(sum), Mul(d, Set1(row.scales[block])));
  if constexpr (kHasMin) MulAdd(acc, m, Set1(row.scaled_sums[block]));
}

}  // namespace octavo::OCTAVO_SIMD

#endif  // OCTAVO_WORKER_CPU_MATMUL_INT8_ROWS_H_
