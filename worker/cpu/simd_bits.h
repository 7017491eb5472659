// Integer lanes beside the float lanes of simd16.h, compile-time loops, and the exponential: what
// the products decode weights with. The rules of simd16.h hold here too.
#ifndef OCTAVO_WORKER_CPU_SIMD_BITS_H_
#define OCTAVO_WORKER_CPU_SIMD_BITS_H_

#include <immintrin.h>

#include <cstdint>
#include <utility>

#include "worker/cpu/simd16.h"

#define OCTAVO_LAMBDA __attribute__((always_inline))  // after a lambda's parameters
// Before a kernel: inlined into its callers, kernels compete for registers.
#define OCTAVO_KERNEL __attribute__((noinline))

namespace octavo::OCTAVO_SIMD {

// A compile-time loop index.
template <int I>
struct Index {
  static constexpr int value = I;
  constexpr operator int() const { return I; }
};

template <class Body, int... I>
OCTAVO_SIMD_INLINE void UnrollOver(Body& body, std::integer_sequence<int, I...>) {
  (body(Index<I>()), ...);
}

// body(Index<0>()), ..., body(Index<N - 1>()): unrolled before the optimiser runs, so arrays
// indexed by it become registers.
template <int N, class Body>
OCTAVO_SIMD_INLINE void Unroll(Body&& body) {
  UnrollOver(body, std::make_integer_sequence<int, N>());
}

// body(Index<n>()) for an n of [Min, Max] known at run time.
template <int Min, int Max, class Body>
OCTAVO_SIMD_INLINE void DispatchRows(int64_t n, Body&& body) {
  if constexpr (Min <= Max) {
    if (n == Min) return body(Index<Min>());
    DispatchRows<Min + 1, Max>(n, body);
  }
}

OCTAVO_SIMD_INLINE void Prefetch(const void* address) {
  _mm_prefetch(static_cast<const char*>(address), _MM_HINT_T0);
}
OCTAVO_SIMD_INLINE void PrefetchSecondLevel(const void* address) {
  _mm_prefetch(static_cast<const char*>(address), _MM_HINT_T1);
}

#if OCTAVO_SIMD_AVX512

struct Bits {  // 16 x 32 bits
  __m512i v;
};

// acc = fma(a, b, acc), in acc's own register: GCC 12 chooses FMA forms that overwrite a factor,
// then copies and spills accumulators around them.
OCTAVO_SIMD_INLINE void MulAdd(Vec& acc, Vec a, Vec b) {
  asm("vfmadd231ps %2, %1, %0" : "+v"(acc.v) : "v"(a.v), "v"(b.v));
}
OCTAVO_SIMD_INLINE Vec Div(Vec a, Vec b) { return {_mm512_div_ps(a.v, b.v)}; }
OCTAVO_SIMD_INLINE Vec Min(Vec a, Vec b) { return {_mm512_min_ps(a.v, b.v)}; }
OCTAVO_SIMD_INLINE Vec RoundToEven(Vec a) { return {_mm512_roundscale_ps(a.v, 8)}; }
// `a`, but x where x is NaN.
OCTAVO_SIMD_INLINE Vec KeepNan(Vec x, Vec a) {
  return {_mm512_mask_mov_ps(a.v, _mm512_cmp_ps_mask(x.v, x.v, _CMP_UNORD_Q), x.v)};
}

OCTAVO_SIMD_INLINE Bits LoadBits(const void* p) { return {_mm512_loadu_si512(p)}; }
OCTAVO_SIMD_INLINE Bits SetBits(uint32_t x) { return {_mm512_set1_epi32(static_cast<int>(x))}; }
OCTAVO_SIMD_INLINE Bits And(Bits a, Bits b) { return {_mm512_and_si512(a.v, b.v)}; }
OCTAVO_SIMD_INLINE Bits Or(Bits a, Bits b) { return {_mm512_or_si512(a.v, b.v)}; }
OCTAVO_SIMD_INLINE Bits AddInt(Bits a, Bits b) { return {_mm512_add_epi32(a.v, b.v)}; }
template <int N>
OCTAVO_SIMD_INLINE Bits ShiftLeft(Bits a) {
  return {_mm512_slli_epi32(a.v, N)};
}
template <int N>
OCTAVO_SIMD_INLINE Bits ShiftRight(Bits a) {
  return {_mm512_srli_epi32(a.v, N)};
}
OCTAVO_SIMD_INLINE Bits ShiftRight(Bits a, int n) {
  return {_mm512_srl_epi32(a.v, _mm_cvtsi32_si128(n))};
}
// Byte N of each lane, zero-extended.
template <int N>
OCTAVO_SIMD_INLINE Bits Byte(Bits a) {
  if constexpr (N == 0) return And(a, SetBits(255));
  if constexpr (N == 3) return ShiftRight<24>(a);
  constexpr int kLane = static_cast<int>(0x80808000u) + N;
  return {_mm512_shuffle_epi8(
      a.v, _mm512_broadcast_i32x4(_mm_setr_epi32(kLane, kLane + 4, kLane + 8, kLane + 12)))};
}
OCTAVO_SIMD_INLINE Vec ToFloat(Bits a) { return {_mm512_cvtepi32_ps(a.v)}; }
OCTAVO_SIMD_INLINE Bits ToInt(Vec a) { return {_mm512_cvtps_epi32(a.v)}; }
OCTAVO_SIMD_INLINE Vec AsVec(Bits a) { return {_mm512_castsi512_ps(a.v)}; }
OCTAVO_SIMD_INLINE Bits AsBits(Vec a) { return {_mm512_castps_si512(a.v)}; }
OCTAVO_SIMD_INLINE Vec LoadU8(const void* p) {
  return {
      _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p))))};
}
OCTAVO_SIMD_INLINE Vec LoadI8(const void* p) {
  return {
      _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p))))};
}

#else

struct Bits {  // 16 x 32 bits
  __m256i lo, hi;
};

OCTAVO_SIMD_INLINE void MulAdd(Vec& acc, Vec a, Vec b) {
  asm("vfmadd231ps %2, %1, %0" : "+x"(acc.lo) : "x"(a.lo), "x"(b.lo));
  asm("vfmadd231ps %2, %1, %0" : "+x"(acc.hi) : "x"(a.hi), "x"(b.hi));
}
OCTAVO_SIMD_INLINE Vec Div(Vec a, Vec b) {
  return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}
OCTAVO_SIMD_INLINE Vec Min(Vec a, Vec b) {
  return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}
OCTAVO_SIMD_INLINE Vec RoundToEven(Vec a) {
  return {_mm256_round_ps(a.lo, 8), _mm256_round_ps(a.hi, 8)};
}
OCTAVO_SIMD_INLINE Vec KeepNan(Vec x, Vec a) {
  return {_mm256_blendv_ps(a.lo, x.lo, _mm256_cmp_ps(x.lo, x.lo, _CMP_UNORD_Q)),
          _mm256_blendv_ps(a.hi, x.hi, _mm256_cmp_ps(x.hi, x.hi, _CMP_UNORD_Q))};
}

OCTAVO_SIMD_INLINE Bits LoadBits(const void* p) {
  const __m256i* q = static_cast<const __m256i*>(p);
  return {_mm256_loadu_si256(q), _mm256_loadu_si256(q + 1)};
}
OCTAVO_SIMD_INLINE Bits SetBits(uint32_t x) {
  const __m256i v = _mm256_set1_epi32(static_cast<int>(x));
  return {v, v};
}
OCTAVO_SIMD_INLINE Bits And(Bits a, Bits b) {
  return {_mm256_and_si256(a.lo, b.lo), _mm256_and_si256(a.hi, b.hi)};
}
OCTAVO_SIMD_INLINE Bits Or(Bits a, Bits b) {
  return {_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)};
}
OCTAVO_SIMD_INLINE Bits AddInt(Bits a, Bits b) {
  return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)};
}
template <int N>
OCTAVO_SIMD_INLINE Bits ShiftLeft(Bits a) {
  return {_mm256_slli_epi32(a.lo, N), _mm256_slli_epi32(a.hi, N)};
}
template <int N>
OCTAVO_SIMD_INLINE Bits ShiftRight(Bits a) {
  return {_mm256_srli_epi32(a.lo, N), _mm256_srli_epi32(a.hi, N)};
}
OCTAVO_SIMD_INLINE Bits ShiftRight(Bits a, int n) {
  const __m128i count = _mm_cvtsi32_si128(n);
  return {_mm256_srl_epi32(a.lo, count), _mm256_srl_epi32(a.hi, count)};
}
template <int N>
OCTAVO_SIMD_INLINE Bits Byte(Bits a) {
  if constexpr (N == 0) return And(a, SetBits(255));
  if constexpr (N == 3) return ShiftRight<24>(a);
  constexpr int kLane = static_cast<int>(0x80808000u) + N;
  const __m256i order =
      _mm256_broadcastsi128_si256(_mm_setr_epi32(kLane, kLane + 4, kLane + 8, kLane + 12));
  return {_mm256_shuffle_epi8(a.lo, order), _mm256_shuffle_epi8(a.hi, order)};
}
OCTAVO_SIMD_INLINE Vec ToFloat(Bits a) {
  return {_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)};
}
OCTAVO_SIMD_INLINE Bits ToInt(Vec a) {
  return {_mm256_cvtps_epi32(a.lo), _mm256_cvtps_epi32(a.hi)};
}
OCTAVO_SIMD_INLINE Vec AsVec(Bits a) {
  return {_mm256_castsi256_ps(a.lo), _mm256_castsi256_ps(a.hi)};
}
OCTAVO_SIMD_INLINE Bits AsBits(Vec a) {
  return {_mm256_castps_si256(a.lo), _mm256_castps_si256(a.hi)};
}
OCTAVO_SIMD_INLINE Vec LoadU8(const void* p) {
  const __m128i v = _mm_loadu_si128(static_cast<const __m128i*>(p));
  return {_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(v)),
          _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(v, 8)))};
}
OCTAVO_SIMD_INLINE Vec LoadI8(const void* p) {
  const __m128i v = _mm_loadu_si128(static_cast<const __m128i*>(p));
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(v)),
          _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(v, 8)))};
}

#endif  // OCTAVO_SIMD_AVX512

// 2^n for integral n in [-126, 127].
OCTAVO_SIMD_INLINE Vec PowerOfTwo(Vec n) {
  return AsVec(ShiftLeft<23>(AddInt(ToInt(n), SetBits(127))));
}

// e^x to about 1 ulp: Cephes' polynomial (expf.c) on [-ln 2 / 2, ln 2 / 2]. Arguments are clamped
// to where the result is finite and not subnormal; NaN stays NaN.
OCTAVO_SIMD_INLINE Vec Exp(Vec x) {
  x = Min(Set1(88.0f), Max(Set1(-87.0f), x));
  const Vec n = RoundToEven(Mul(x, Set1(1.44269504f)));
  Vec r = Fma(n, Set1(-0.693359375f), x);
  r = Fma(n, Set1(2.12194440e-4f), r);
  Vec p = Set1(1.9875691500e-4f);
  p = Fma(p, r, Set1(1.3981999507e-3f));
  p = Fma(p, r, Set1(8.3334519073e-3f));
  p = Fma(p, r, Set1(4.1665795894e-2f));
  p = Fma(p, r, Set1(1.6666665459e-1f));
  p = Fma(p, r, Set1(5.0000001201e-1f));
  p = Fma(Mul(p, r), r, Add(r, Set1(1.0f)));
  return Mul(p, PowerOfTwo(n));
}

}  // namespace octavo::OCTAVO_SIMD

#endif  // OCTAVO_WORKER_CPU_SIMD_BITS_H_
