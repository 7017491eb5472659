// Loads of 8-bit elements as 16 float lanes (simd16.h). Every conversion is exact.
//
// Both 8-bit float formats widen through fp16, which the processor then widens to fp32, subnormal
// numbers included. e5m2 is the upper byte of fp16. e4m3 has one bit less of exponent: one place
// further to the right, its value is 2^-8 of what it should be, and who multiplies by it makes up
// for that (kE4m3Factor). Its NaN code reads as 480 in the same way.
#ifndef OCTAVO_WORKER_CPU_SIMD_BYTES_H_
#define OCTAVO_WORKER_CPU_SIMD_BYTES_H_

#include "worker/cpu/simd16.h"

namespace octavo {
namespace OCTAVO_SIMD {

inline constexpr float kE4m3Factor = 256.0f;

OCTAVO_SIMD_INLINE __m128i LoadBytes16(const void* p) {
  return _mm_loadu_si128(static_cast<const __m128i*>(p));
}
// The upper eight bytes are 0.
OCTAVO_SIMD_INLINE __m128i LoadBytes8(const void* p) {
  return _mm_loadl_epi64(static_cast<const __m128i*>(p));
}

#if OCTAVO_SIMD_AVX512
OCTAVO_SIMD_INLINE Vec Int8ToFloat(__m128i bytes) {
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes))};
}
OCTAVO_SIMD_INLINE Vec HalfToFloat(__m256i halves) { return {_mm512_cvtph_ps(halves)}; }
#else
OCTAVO_SIMD_INLINE Vec Int8ToFloat(__m128i bytes) {
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)),
          _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)))};
}
OCTAVO_SIMD_INLINE Vec HalfToFloat(__m256i halves) {
  return {_mm256_cvtph_ps(_mm256_castsi256_si128(halves)),
          _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1))};
}
#endif

// Two runs of eight fp16.
OCTAVO_SIMD_INLINE Vec LoadHalves(const void* low, const void* high) {
  return HalfToFloat(
      _mm256_inserti128_si256(_mm256_castsi128_si256(LoadBytes16(low)), LoadBytes16(high), 1));
}

struct E4m3 {
  // Codes in the upper bytes of 16 words; the lower bytes are ignored.
  OCTAVO_SIMD_INLINE Vec FromUpperBytes(__m256i words) {
    return HalfToFloat(_mm256_and_si256(_mm256_srai_epi16(words, 1),
                                        _mm256_set1_epi16(static_cast<int16_t>(0xbf80))));
  }
};

struct E5m2 {
  OCTAVO_SIMD_INLINE Vec FromUpperBytes(__m256i words) {
    return HalfToFloat(_mm256_and_si256(words, _mm256_set1_epi16(static_cast<int16_t>(0xff00))));
  }
};

template <typename Format>
OCTAVO_SIMD_INLINE Vec Float8ToFloat(__m128i bytes) {
  return Format::FromUpperBytes(_mm256_slli_epi16(_mm256_cvtepu8_epi16(bytes), 8));
}
// 16 pairs: the first of each, or the second.
template <typename Format, bool kSecond>
OCTAVO_SIMD_INLINE Vec LoadFloat8OfPairs(const void* p) {
  const __m256i pairs = _mm256_loadu_si256(static_cast<const __m256i*>(p));
  return Format::FromUpperBytes(kSecond ? pairs : _mm256_slli_epi16(pairs, 8));
}

}  // namespace OCTAVO_SIMD
}  // namespace octavo

#endif  // OCTAVO_WORKER_CPU_SIMD_BYTES_H_
