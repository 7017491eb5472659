// How each packed format turns into floats in registers. Per instruction set (simd16.h).
//
// A format F offers, for a K-block of one panel:
//   kGroup            inputs behind one scale: 32 or 16
//   kScale            kNone, kScale (d) or kScaleMin (d and m)
//   Load(block, j, h) registers with inputs [8 j, 8 j + 8) of half h's 16 rows
//   Value<I>(raw)     input 8 j + I as exact floats
//   Scales(header, block, g, h, d, m)  of group g
#ifndef OCTAVO_WORKER_CPU_MATMUL_FORMATS_H_
#define OCTAVO_WORKER_CPU_MATMUL_FORMATS_H_

#include <cstdint>

#include "worker/cpu/packed_format.h"
#include "worker/cpu/simd_bits.h"

namespace octavo::OCTAVO_SIMD {

enum class Scale { kNone, kScale, kScaleMin };

struct Unscaled {
  static constexpr int kGroup = 32;
  static constexpr Scale kScale = Scale::kNone;
  OCTAVO_SIMD_INLINE void Scales(const uint8_t*, const uint8_t*, int, int, Vec&, Vec&) {}
};

// fp16 d, and m behind it, at a fixed place in the block.
template <int Offset, bool HasMin>
struct HalfScales {
  static constexpr int kGroup = 32;
  static constexpr Scale kScale = HasMin ? Scale::kScaleMin : Scale::kScale;
  OCTAVO_SIMD_INLINE void Scales(const uint8_t*, const uint8_t* block, int, int h, Vec& d, Vec& m) {
    d = LoadHalf(block + Offset + h * 32);
    if constexpr (HasMin) m = LoadHalf(block + Offset + 64 + h * 32);
  }
};

// w = (d * scale) q - (dmin * min): both products are exact in f32 (11 + 6 bits).
template <int Offset>
struct SuperScales {
  static constexpr int kGroup = 32;
  static constexpr Scale kScale = Scale::kScaleMin;
  OCTAVO_SIMD_INLINE void Scales(const uint8_t* header, const uint8_t* block, int, int h, Vec& d,
                                 Vec& m) {
    d = Mul(LoadHalf(header + h * 32), LoadU8(block + Offset + h * 16));
    m = Mul(LoadHalf(header + 64 + h * 32), LoadU8(block + Offset + 32 + h * 16));
    m = Sub(Zero(), m);
  }
};

struct FormatF32 : Unscaled {
  using Raw = const uint8_t*;
  OCTAVO_SIMD_INLINE Raw Load(const uint8_t* block, int j, int h) {
    return block + j * 1024 + h * 64;
  }
  template <int I>
  OCTAVO_SIMD_INLINE Vec Value(Raw raw) {
    return AsVec(LoadBits(raw + I * 128));
  }
};

struct FormatF16 : Unscaled {
  using Raw = const uint8_t*;
  OCTAVO_SIMD_INLINE Raw Load(const uint8_t* block, int j, int h) {
    return block + j * 512 + h * 32;
  }
  template <int I>
  OCTAVO_SIMD_INLINE Vec Value(Raw raw) {
    return LoadHalf(raw + I * 64);
  }
};

struct FormatBF16 : Unscaled {
  using Raw = const uint8_t*;
  OCTAVO_SIMD_INLINE Raw Load(const uint8_t* block, int j, int h) {
    return block + j * 512 + h * 64;
  }
  template <int I>
  OCTAVO_SIMD_INLINE Vec Value(Raw raw) {
    const Bits pair = LoadBits(raw + I / 2 * 128);
    if constexpr (I % 2 == 0) return AsVec(ShiftLeft<16>(pair));
    return AsVec(And(pair, SetBits(0xFFFF0000u)));
  }
};

struct FormatQ8_0 : HalfScales<1024, false> {
  struct Raw {
    Bits low, high;
  };
  OCTAVO_SIMD_INLINE Raw Load(const uint8_t* block, int j, int h) {
    const uint8_t* p = block + j * 256 + h * 64;
    return {LoadBits(p), LoadBits(p + 128)};
  }
  template <int I>
  OCTAVO_SIMD_INLINE Vec Value(const Raw& raw) {
    return Sub(ToFloat(Byte<I % 4>(I < 4 ? raw.low : raw.high)), Set1(128.0f));
  }
};

// Nibble I of each lane, less Bias.
template <int I, int Bias>
OCTAVO_SIMD_INLINE Vec NibbleValue(Bits nibbles) {
  const Bits shifted = ShiftRight<4 * I>(nibbles);
#if OCTAVO_SIMD_AVX512
  // A permutation looks at the low 4 bits of an index only: no mask, no conversion.
  const __m512 table = _mm512_setr_ps(0 - Bias, 1 - Bias, 2 - Bias, 3 - Bias, 4 - Bias, 5 - Bias,
                                      6 - Bias, 7 - Bias, 8 - Bias, 9 - Bias, 10 - Bias, 11 - Bias,
                                      12 - Bias, 13 - Bias, 14 - Bias, 15 - Bias);
  return {_mm512_permutexvar_ps(shifted.v, table)};
#else
  const Vec value = ToFloat(And(shifted, SetBits(15)));
  if constexpr (Bias == 0) return value;
  return Sub(value, Set1(Bias));
#endif
}

template <int Bias, class ScalesOf>
struct FormatQ4 : ScalesOf {
  using Raw = Bits;
  OCTAVO_SIMD_INLINE Raw Load(const uint8_t* block, int j, int h) {
    return LoadBits(block + j * 128 + h * 64);
  }
  template <int I>
  OCTAVO_SIMD_INLINE Vec Value(const Raw& raw) {
    return NibbleValue<I, Bias>(raw);
  }
};

struct NibblesAndBits {
  Bits nibbles, bits;
};

// The bits of `bits` from bit `From` on, moved to bit 4, where they top a nibble.
template <int From>
OCTAVO_SIMD_INLINE Bits MoveToBit4(Bits bits) {
  if constexpr (From < 4) return ShiftLeft<4 - From>(bits);
  if constexpr (From > 4) return ShiftRight<From - 4>(bits);
  return bits;
}

template <int Bias, class ScalesOf>
struct FormatQ5 : ScalesOf {
  using Raw = NibblesAndBits;
  OCTAVO_SIMD_INLINE Raw Load(const uint8_t* block, int j, int h) {
    return {LoadBits(block + j * 128 + h * 64), ShiftRight(LoadBits(block + 512 + h * 64), 8 * j)};
  }
  template <int I>
  OCTAVO_SIMD_INLINE Vec Value(const Raw& raw) {
    const Bits low = And(ShiftRight<4 * I>(raw.nibbles), SetBits(15));
    const Bits q = Or(low, And(MoveToBit4<I>(raw.bits), SetBits(16)));
    if constexpr (Bias == 0) return ToFloat(q);
    return Sub(ToFloat(q), Set1(Bias));
  }
};

struct FormatQ6K {
  static constexpr int kGroup = 16;
  static constexpr Scale kScale = Scale::kScale;
  using Raw = NibblesAndBits;
  OCTAVO_SIMD_INLINE Raw Load(const uint8_t* block, int j, int h) {
    return {LoadBits(block + j * 128 + h * 64),
            ShiftRight(LoadBits(block + 512 + j / 2 * 128 + h * 64), j % 2 * 16)};
  }
  template <int I>
  OCTAVO_SIMD_INLINE Vec Value(const Raw& raw) {
    const Bits low = And(ShiftRight<4 * I>(raw.nibbles), SetBits(15));
    const Bits q = Or(low, And(MoveToBit4<2 * I>(raw.bits), SetBits(48)));
    return Sub(ToFloat(q), Set1(32.0f));
  }
  // d * scale is exact in f32 (11 + 7 bits).
  OCTAVO_SIMD_INLINE void Scales(const uint8_t* header, const uint8_t* block, int g, int h, Vec& d,
                                 Vec&) {
    d = Mul(LoadHalf(header + h * 32), LoadI8(block + 768 + g * 32 + h * 16));
  }
};

template <PackFormat P>
struct FormatOf;
template <>
struct FormatOf<PackFormat::kF32> : FormatF32 {};
template <>
struct FormatOf<PackFormat::kF16> : FormatF16 {};
template <>
struct FormatOf<PackFormat::kBF16> : FormatBF16 {};
template <>
struct FormatOf<PackFormat::kQ8_0> : FormatQ8_0 {};
template <>
struct FormatOf<PackFormat::kQ4_0> : FormatQ4<8, HalfScales<512, false>> {};
template <>
struct FormatOf<PackFormat::kQ4_1> : FormatQ4<0, HalfScales<512, true>> {};
template <>
struct FormatOf<PackFormat::kQ5_0> : FormatQ5<16, HalfScales<640, false>> {};
template <>
struct FormatOf<PackFormat::kQ5_1> : FormatQ5<0, HalfScales<640, true>> {};
template <>
struct FormatOf<PackFormat::kQ4_K> : FormatQ4<0, SuperScales<512>> {};
template <>
struct FormatOf<PackFormat::kQ5_K> : FormatQ5<0, SuperScales<640>> {};
template <>
struct FormatOf<PackFormat::kQ6_K> : FormatQ6K {};

// A stored format with its layout.
template <PackFormat P>
struct Format : FormatOf<P> {
  static constexpr PackFormat kFormat = P;
  static constexpr PackLayout kLayout = LayoutOf(P);

  OCTAVO_SIMD_INLINE const uint8_t* Header(const uint8_t* panel, int64_t block) {
    if constexpr (kLayout.super_blocks == 1) return panel;
    return panel + block / kLayout.super_blocks * PanelBytes(P, kLayout.super_blocks);
  }
  OCTAVO_SIMD_INLINE const uint8_t* Block(const uint8_t* panel, int64_t block) {
    return Header(panel, block) + kLayout.header_bytes +
           (kLayout.super_blocks == 1 ? block : block % kLayout.super_blocks) * kLayout.block_bytes;
  }
};

// body(Format<P>()) for a P known at run time.
template <class Body>
OCTAVO_SIMD_INLINE void DispatchFormat(PackFormat format, Body&& body) {
  switch (format) {
    case PackFormat::kF32:
      return body(Format<PackFormat::kF32>());
    case PackFormat::kF16:
      return body(Format<PackFormat::kF16>());
    case PackFormat::kBF16:
      return body(Format<PackFormat::kBF16>());
    case PackFormat::kQ8_0:
      return body(Format<PackFormat::kQ8_0>());
    case PackFormat::kQ4_0:
      return body(Format<PackFormat::kQ4_0>());
    case PackFormat::kQ4_1:
      return body(Format<PackFormat::kQ4_1>());
    case PackFormat::kQ5_0:
      return body(Format<PackFormat::kQ5_0>());
    case PackFormat::kQ5_1:
      return body(Format<PackFormat::kQ5_1>());
    case PackFormat::kQ4_K:
      return body(Format<PackFormat::kQ4_K>());
    case PackFormat::kQ5_K:
      return body(Format<PackFormat::kQ5_K>());
    case PackFormat::kQ6_K:
      return body(Format<PackFormat::kQ6_K>());
  }
}

}  // namespace octavo::OCTAVO_SIMD

#endif  // OCTAVO_WORKER_CPU_MATMUL_FORMATS_H_
