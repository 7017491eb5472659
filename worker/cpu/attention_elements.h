// How the attention kernels load K and V of each element type (kv_layout.h), as 16 floats.
#ifndef OCTAVO_WORKER_CPU_ATTENTION_ELEMENTS_H_
#define OCTAVO_WORKER_CPU_ATTENTION_ELEMENTS_H_

#include "worker/cpu/attention_kernel.h"
#include "worker/cpu/simd16.h"
#include "worker/cpu/simd_bytes.h"

namespace octavo {
namespace OCTAVO_SIMD {

// How the pool stores elements (kv_layout.h). Key: one dimension of a group of 16 positions. What
// the loads give times kKeyFactor or kValueFactor, times the token's scale where kScaled, is K or
// V. A scale of V that meets p takes 1 / kValueFactor with it, so that their product is never
// subnormal, which would cost a hundred times as much.
template <KvElement kElement>
struct Element;

template <>
struct Element<KvElement::kFloat32> {
  static constexpr int kBytes = 4;
  static constexpr int kKeyStep = 1;  // dimensions per row of a key group
  static constexpr float kKeyFactor = 1;
  static constexpr float kValueFactor = 1;
  static constexpr bool kScaled = false;
  template <bool kOdd>
  OCTAVO_SIMD_INLINE Vec Key(const std::byte* group, int pair) {
    return Load(reinterpret_cast<const float*>(group) + (2 * pair + kOdd) * kLanes);
  }
  OCTAVO_SIMD_INLINE void ValuePair(const std::byte* row, int pair, Vec& low, Vec& high) {
    low = Load(reinterpret_cast<const float*>(row) + 32 * pair);
    high = Load(reinterpret_cast<const float*>(row) + 32 * pair + 16);
  }
  OCTAVO_SIMD_INLINE Vec Value16(const std::byte* row, int d) {
    return Load(reinterpret_cast<const float*>(row) + d);
  }
  OCTAVO_SIMD_INLINE Vec Value8(const std::byte* row, int d) {
    return Load8(reinterpret_cast<const float*>(row) + d);
  }
};

template <>
struct Element<KvElement::kFloat16> {
  static constexpr int kBytes = 2;
  static constexpr int kKeyStep = 1;
  static constexpr float kKeyFactor = 1;
  static constexpr float kValueFactor = 1;
  static constexpr bool kScaled = false;
  template <bool kOdd>
  OCTAVO_SIMD_INLINE Vec Key(const std::byte* group, int pair) {
    return LoadHalf(group + (2 * pair + kOdd) * 2 * kLanes);
  }
  OCTAVO_SIMD_INLINE void ValuePair(const std::byte* row, int pair, Vec& low, Vec& high) {
    low = LoadHalf(row + 64 * pair);
    high = LoadHalf(row + 64 * pair + 32);
  }
  OCTAVO_SIMD_INLINE Vec Value16(const std::byte* row, int d) { return LoadHalf(row + 2 * d); }
  OCTAVO_SIMD_INLINE Vec Value8(const std::byte* row, int d) { return LoadHalf8(row + 2 * d); }
};

template <>
struct Element<KvElement::kBFloat16> {
  static constexpr int kBytes = 2;
  static constexpr int kKeyStep = 2;
  static constexpr float kKeyFactor = 1;
  static constexpr float kValueFactor = 1;
  static constexpr bool kScaled = false;
  template <bool kOdd>
  OCTAVO_SIMD_INLINE Vec Key(const std::byte* group, int pair) {
    Vec even, odd;
    LoadBfloatPairs(group + 64 * pair, even, odd);
    return kOdd ? odd : even;
  }
  OCTAVO_SIMD_INLINE void ValuePair(const std::byte* row, int pair, Vec& low, Vec& high) {
    LoadBfloatPairs(row + 64 * pair, low, high);
  }
  OCTAVO_SIMD_INLINE Vec Value16(const std::byte* row, int d) { return LoadBfloat(row + 2 * d); }
  OCTAVO_SIMD_INLINE Vec Value8(const std::byte* row, int d) { return LoadBfloat8(row + 2 * d); }
};

template <>
struct Element<KvElement::kInt8> {
  static constexpr int kBytes = 1;
  static constexpr int kKeyStep = 1;
  static constexpr float kKeyFactor = 1;
  static constexpr float kValueFactor = 0x1p-24f;
  static constexpr bool kScaled = true;
  template <bool kOdd>
  OCTAVO_SIMD_INLINE Vec Key(const std::byte* group, int pair) {
    return Int8ToFloat(LoadBytes16(group + (2 * pair + kOdd) * kLanes));
  }
  OCTAVO_SIMD_INLINE void ValuePair(const std::byte* row, int pair, Vec& low, Vec& high) {
    low = Int8ToFloat(LoadBytes16(row + 32 * pair));
    high = Int8ToFloat(LoadBytes16(row + 32 * pair + 16));
  }
  OCTAVO_SIMD_INLINE Vec Value16(const std::byte* row, int d) {
    return Int8ToFloat(LoadBytes16(row + d));
  }
  OCTAVO_SIMD_INLINE Vec Value8(const std::byte* row, int d) {
    return Int8ToFloat(LoadBytes8(row + d));
  }
};

template <typename Format>
struct Float8Element {
  static constexpr int kBytes = 1;
  static constexpr int kKeyStep = 2;
  static constexpr bool kScaled = false;
  template <bool kOdd>
  OCTAVO_SIMD_INLINE Vec Key(const std::byte* group, int pair) {
    return LoadFloat8OfPairs<Format, kOdd>(group + 2 * kLanes * pair);
  }
  OCTAVO_SIMD_INLINE void ValuePair(const std::byte* row, int pair, Vec& low, Vec& high) {
    low = LoadFloat8OfPairs<Format, false>(row + 32 * pair);
    high = LoadFloat8OfPairs<Format, true>(row + 32 * pair);
  }
  OCTAVO_SIMD_INLINE Vec Value16(const std::byte* row, int d) {
    return Float8ToFloat<Format>(LoadBytes16(row + d));
  }
  OCTAVO_SIMD_INLINE Vec Value8(const std::byte* row, int d) {
    return Float8ToFloat<Format>(LoadBytes8(row + d));
  }
};

template <>
struct Element<KvElement::kFloat8E4M3> : Float8Element<E4m3> {
  static constexpr float kKeyFactor = kE4m3Factor;
  static constexpr float kValueFactor = kE4m3Factor;
};

template <>
struct Element<KvElement::kFloat8E5M2> : Float8Element<E5m2> {
  static constexpr float kKeyFactor = 1;
  static constexpr float kValueFactor = 1;
};

}  // namespace OCTAVO_SIMD
}  // namespace octavo

#endif  // OCTAVO_WORKER_CPU_ATTENTION_ELEMENTS_H_
