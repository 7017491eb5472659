// Sixteen float lanes: one AVX-512 register, or two AVX2 registers with the same results bit for
// bit. The including file's compile flags choose; each variant has a namespace of its own, so that
// code of one instruction set can never be linked into the other.
//
// Files compiled for AVX-512 include no standard containers or algorithms: the linker keeps one
// copy of an inline function, and it could keep theirs.
#ifndef OCTAVO_WORKER_CPU_SIMD16_H_
#define OCTAVO_WORKER_CPU_SIMD16_H_

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define OCTAVO_SIMD simd_avx512
#define OCTAVO_SIMD_AVX512 1
#else
#define OCTAVO_SIMD simd_avx2
#define OCTAVO_SIMD_AVX512 0
#endif
#define OCTAVO_SIMD_INLINE static inline __attribute__((always_inline))

namespace octavo {
namespace OCTAVO_SIMD {

inline constexpr int kLanes = 16;

#if OCTAVO_SIMD_AVX512

struct Vec {
  __m512 v;
};

OCTAVO_SIMD_INLINE Vec Zero() { return {_mm512_setzero_ps()}; }
OCTAVO_SIMD_INLINE Vec Set1(float x) { return {_mm512_set1_ps(x)}; }
OCTAVO_SIMD_INLINE Vec Load(const float* p) { return {_mm512_loadu_ps(p)}; }
OCTAVO_SIMD_INLINE Vec Load8(const float* p) {  // the upper lanes are 0
  return {_mm512_zextps256_ps512(_mm256_loadu_ps(p))};
}
OCTAVO_SIMD_INLINE void Store(float* p, Vec a) { _mm512_storeu_ps(p, a.v); }
OCTAVO_SIMD_INLINE Vec Add(Vec a, Vec b) { return {_mm512_add_ps(a.v, b.v)}; }
OCTAVO_SIMD_INLINE Vec Sub(Vec a, Vec b) { return {_mm512_sub_ps(a.v, b.v)}; }
OCTAVO_SIMD_INLINE Vec Mul(Vec a, Vec b) { return {_mm512_mul_ps(a.v, b.v)}; }
// b where a or b is NaN, as the instruction has it.
OCTAVO_SIMD_INLINE Vec Max(Vec a, Vec b) { return {_mm512_max_ps(a.v, b.v)}; }
OCTAVO_SIMD_INLINE Vec Fma(Vec a, Vec b, Vec c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
OCTAVO_SIMD_INLINE __m256 Low(Vec a) { return _mm512_castps512_ps256(a.v); }
OCTAVO_SIMD_INLINE __m256 High(Vec a) { return _mm512_extractf32x8_ps(a.v, 1); }
// a in lanes [begin, end), `other` elsewhere.
OCTAVO_SIMD_INLINE Vec KeepLanes(Vec a, int begin, int end, Vec other) {
  const __mmask16 mask = static_cast<__mmask16>(((1u << end) - 1) & ~((1u << begin) - 1));
  return {_mm512_mask_mov_ps(other.v, mask, a.v)};
}
// p * 2^n for p in [0.5, 2]; n is in the low bits of `magic` (see Exp2).
OCTAVO_SIMD_INLINE Vec ScaleByExponent(Vec p, Vec magic) {
  return {_mm512_castsi512_ps(_mm512_add_epi32(
      _mm512_castps_si512(p.v), _mm512_slli_epi32(_mm512_castps_si512(magic.v), 23)))};
}
OCTAVO_SIMD_INLINE Vec LoadHalf(const void* p) {  // 16 fp16
  return {_mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p)))};
}
OCTAVO_SIMD_INLINE Vec LoadHalf8(const void* p) {
  return {_mm512_zextps256_ps512(_mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(p))))};
}
OCTAVO_SIMD_INLINE Vec LoadBfloat(const void* p) {  // 16 bf16
  return {_mm512_castsi512_ps(_mm512_slli_epi32(
      _mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(p))), 16))};
}
// 16 pairs of bf16: the first of each, and the second of each.
OCTAVO_SIMD_INLINE void LoadBfloatPairs(const void* p, Vec& first, Vec& second) {
  const __m512i pairs = _mm512_loadu_si512(p);
  first.v = _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
  second.v = _mm512_castsi512_ps(
      _mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xffff0000u))));
}

#else

struct Vec {
  __m256 lo, hi;
};

OCTAVO_SIMD_INLINE Vec Zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
OCTAVO_SIMD_INLINE Vec Set1(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
OCTAVO_SIMD_INLINE Vec Load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
OCTAVO_SIMD_INLINE Vec Load8(const float* p) { return {_mm256_loadu_ps(p), _mm256_setzero_ps()}; }
OCTAVO_SIMD_INLINE void Store(float* p, Vec a) {
  _mm256_storeu_ps(p, a.lo);
  _mm256_storeu_ps(p + 8, a.hi);
}
OCTAVO_SIMD_INLINE Vec Add(Vec a, Vec b) {
  return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}
OCTAVO_SIMD_INLINE Vec Sub(Vec a, Vec b) {
  return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
OCTAVO_SIMD_INLINE Vec Mul(Vec a, Vec b) {
  return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}
// b where a or b is NaN, as the instruction has it.
OCTAVO_SIMD_INLINE Vec Max(Vec a, Vec b) {
  return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}
OCTAVO_SIMD_INLINE Vec Fma(Vec a, Vec b, Vec c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
OCTAVO_SIMD_INLINE __m256 Low(Vec a) { return a.lo; }
OCTAVO_SIMD_INLINE __m256 High(Vec a) { return a.hi; }
// a in lanes [begin, end), `other` elsewhere.
OCTAVO_SIMD_INLINE Vec KeepLanes(Vec a, int begin, int end, Vec other) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const auto keep = [&](__m256 x, __m256 y, int first) {
    const __m256i below_end = _mm256_cmpgt_epi32(_mm256_set1_epi32(end - first), lane);
    const __m256i below_begin = _mm256_cmpgt_epi32(_mm256_set1_epi32(begin - first), lane);
    return _mm256_blendv_ps(y, x, _mm256_castsi256_ps(_mm256_andnot_si256(below_begin, below_end)));
  };
  return {keep(a.lo, other.lo, 0), keep(a.hi, other.hi, 8)};
}
// p * 2^n for p in [0.5, 2]; n is in the low bits of `magic` (see Exp2).
OCTAVO_SIMD_INLINE Vec ScaleByExponent(Vec p, Vec magic) {
  const auto scale = [](__m256 x, __m256 n) {
    return _mm256_castsi256_ps(
        _mm256_add_epi32(_mm256_castps_si256(x), _mm256_slli_epi32(_mm256_castps_si256(n), 23)));
  };
  return {scale(p.lo, magic.lo), scale(p.hi, magic.hi)};
}
OCTAVO_SIMD_INLINE __m256 HalfToFloat8(const void* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(p)));
}
OCTAVO_SIMD_INLINE Vec LoadHalf(const void* p) {  // 16 fp16
  return {HalfToFloat8(p), HalfToFloat8(static_cast<const std::byte*>(p) + 16)};
}
OCTAVO_SIMD_INLINE Vec LoadHalf8(const void* p) { return {HalfToFloat8(p), _mm256_setzero_ps()}; }
OCTAVO_SIMD_INLINE __m256 BfloatToFloat8(const void* p) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(
      _mm256_cvtepu16_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p))), 16));
}
OCTAVO_SIMD_INLINE Vec LoadBfloat(const void* p) {  // 16 bf16
  return {BfloatToFloat8(p), BfloatToFloat8(static_cast<const std::byte*>(p) + 16)};
}
// 16 pairs of bf16: the first of each, and the second of each.
OCTAVO_SIMD_INLINE void LoadBfloatPairs(const void* p, Vec& first, Vec& second) {
  const __m256i lo = _mm256_loadu_si256(static_cast<const __m256i*>(p));
  const __m256i hi = _mm256_loadu_si256(static_cast<const __m256i*>(p) + 1);
  const __m256i mask = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
  first = {_mm256_castsi256_ps(_mm256_slli_epi32(lo, 16)),
           _mm256_castsi256_ps(_mm256_slli_epi32(hi, 16))};
  second = {_mm256_castsi256_ps(_mm256_and_si256(lo, mask)),
            _mm256_castsi256_ps(_mm256_and_si256(hi, mask))};
}

#endif

OCTAVO_SIMD_INLINE Vec LoadBfloat8(const void* p) {  // the upper lanes are 0
  const __m256 lanes = _mm256_castsi256_ps(_mm256_slli_epi32(
      _mm256_cvtepu16_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p))), 16));
#if OCTAVO_SIMD_AVX512
  return {_mm512_zextps256_ps512(lanes)};
#else
  return {lanes, _mm256_setzero_ps()};
#endif
}

// Lanes combine in a fixed tree: i and i + 8, then i + 4, i + 2, i + 1.
OCTAVO_SIMD_INLINE float ReduceAdd(Vec a) {
  const __m256 eight = _mm256_add_ps(Low(a), High(a));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
OCTAVO_SIMD_INLINE float ReduceMax(Vec a) {
  const __m256 eight = _mm256_max_ps(Low(a), High(a));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}

// 2^x for x <= 0, within 1.2e-7 relative; 2^0 is 1 exactly. Below -126 it stays at 2^-126; NaN
// stays NaN. Degree 6 on [-0.5, 0.5]; adding 1.5 * 2^23 rounds x to an integer kept in the low
// bits.
OCTAVO_SIMD_INLINE Vec Exp2(Vec x) {
  const Vec magic = Set1(12582912.0f);
  x = Max(Set1(-126.0f), x);
  const Vec rounded = Add(x, magic);
  const Vec fraction = Sub(x, Sub(rounded, magic));
  Vec p = Set1(1.535336188319500e-4f);
  p = Fma(p, fraction, Set1(1.339887440266574e-3f));
  p = Fma(p, fraction, Set1(9.618437357674640e-3f));
  p = Fma(p, fraction, Set1(5.550332471162809e-2f));
  p = Fma(p, fraction, Set1(2.402264791363012e-1f));
  p = Fma(p, fraction, Set1(6.931472028550421e-1f));
  p = Fma(p, fraction, Set1(1.0f));
  return ScaleByExponent(p, rounded);
}

}  // namespace OCTAVO_SIMD
}  // namespace octavo

#endif  // OCTAVO_WORKER_CPU_SIMD16_H_
