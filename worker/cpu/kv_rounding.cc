#include "worker/cpu/kv_rounding.h"

#include <immintrin.h>

namespace octavo {
namespace {

// Upper halves of the floats, rounded; a NaN keeps its sign and becomes quiet.
__m256i BfloatBits(__m256 x) {
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x00400000));
  const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  return _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, is_nan), 16);
}

__m256 Magnitude(__m256 x) {
  return _mm256_and_ps(x, _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff)));
}

// Codes in the low byte of each lane: sign, exponent, mantissa.
template <int kMantissaBits, int kBias>
__m256i Float8Codes(__m256 x, float largest) {
  constexpr int kDropped = 23 - kMantissaBits;
  const __m256 magnitude = _mm256_min_ps(Magnitude(x), _mm256_set1_ps(largest));
  const __m256i bits = _mm256_castps_si256(magnitude);
  // Normal numbers: cut the mantissa, to nearest even, and move the exponent's bias.
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, kDropped), _mm256_set1_epi32(1));
  const __m256i rounded =
      _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32((1 << (kDropped - 1)) - 1)));
  const __m256i normal = _mm256_sub_epi32(_mm256_srli_epi32(rounded, kDropped),
                                          _mm256_set1_epi32((127 - kBias) << kMantissaBits));
  // Below the smallest normal number: adding 2^23 units of the last place rounds to such units.
  constexpr int kUnitExponent = 1 - kBias - kMantissaBits;
  const __m256 units = _mm256_castsi256_ps(_mm256_set1_epi32((127 + kUnitExponent + 23) << 23));
  const __m256i subnormal = _mm256_sub_epi32(_mm256_castps_si256(_mm256_add_ps(magnitude, units)),
                                             _mm256_castps_si256(units));
  const __m256i least_normal = _mm256_set1_epi32((128 - kBias) << 23);
  __m256i codes = _mm256_blendv_epi8(normal, subnormal, _mm256_cmpgt_epi32(least_normal, bits));
  const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  codes = _mm256_blendv_epi8(codes, _mm256_set1_epi32(0x7f), is_nan);
  const __m256i sign =
      _mm256_and_si256(_mm256_srli_epi32(_mm256_castps_si256(x), 24), _mm256_set1_epi32(0x80));
  return _mm256_or_si256(codes, sign);
}

// The low bytes of eight lanes, side by side. REQUIRES: lanes in [-128, 255].
void StoreBytes(__m256i lanes, void* out) {
  const __m256i order = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1));
  const __m256i fours = _mm256_shuffle_epi8(lanes, order);
  const __m128i eight =
      _mm_unpacklo_epi32(_mm256_castsi256_si128(fours), _mm256_extracti128_si256(fours, 1));
  _mm_storel_epi64(static_cast<__m128i*>(out), eight);
}

constexpr float kLargestHalf = 65504.0f;

}  // namespace

void RoundToHalves(DType dtype, const float* x, int32_t count, uint16_t* out) {
  for (int32_t i = 0; i < count; i += 8) {
    const __m256 eight = _mm256_loadu_ps(x + i);
    __m128i halves;
    if (dtype == DType::kF16) {
      halves = _mm256_cvtps_ph(eight, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    } else {
      const __m256i bits = BfloatBits(eight);
      halves = _mm_packus_epi32(_mm256_castsi256_si128(bits), _mm256_extracti128_si256(bits, 1));
    }
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), halves);
  }
}

void RoundToFloat8(DType dtype, const float* x, int32_t count, uint8_t* out) {
  for (int32_t i = 0; i < count; i += 8) {
    const __m256 eight = _mm256_loadu_ps(x + i);
    StoreBytes(dtype == DType::kF8E4M3 ? Float8Codes<3, 7>(eight, 448.0f)
                                       : Float8Codes<2, 15>(eight, 57344.0f),
               out + i);
  }
}

uint16_t RoundToInt8(const float* x, int32_t count, int8_t* out) {
  __m256 largest = _mm256_setzero_ps();
  __m256 nan = _mm256_setzero_ps();
  for (int32_t i = 0; i < count; i += 8) {
    const __m256 eight = _mm256_loadu_ps(x + i);
    largest = _mm256_max_ps(Magnitude(eight), largest);
    nan = _mm256_or_ps(nan, _mm256_cmp_ps(eight, eight, _CMP_UNORD_Q));
  }
  __m128 four = _mm_max_ps(_mm256_castps256_ps128(largest), _mm256_extractf128_ps(largest, 1));
  four = _mm_max_ps(four, _mm_movehl_ps(four, four));
  four = _mm_max_ss(four, _mm_shuffle_ps(four, four, 1));
  const __m128 wanted = _mm_min_ss(_mm_div_ss(four, _mm_set_ss(127.0f)), _mm_set_ss(kLargestHalf));
  const __m128i half = _mm_cvtps_ph(wanted, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const float scale = _mm_cvtss_f32(_mm_cvtph_ps(half));
  const bool any = scale > 0;
  const __m256 divisor = _mm256_set1_ps(any ? scale : 1.0f);
  const __m256 most = _mm256_set1_ps(any ? 127.0f : 0.0f);
  for (int32_t i = 0; i < count; i += 8) {
    // Of a NaN any code will do: the scale says it.
    const __m256 ratio = _mm256_div_ps(_mm256_loadu_ps(x + i), divisor);
    const __m256 kept =
        _mm256_max_ps(_mm256_min_ps(ratio, most), _mm256_sub_ps(_mm256_setzero_ps(), most));
    StoreBytes(_mm256_cvtps_epi32(kept), out + i);
  }
  if (_mm256_movemask_ps(nan) != 0) return 0x7e00;
  return static_cast<uint16_t>(_mm_extract_epi16(half, 0));
}

}  // namespace octavo
