#include "worker/cpu/kv_write.h"

#include <immintrin.h>

#include <cstring>

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

// REQUIRES: dtype is kBF16 or kF16; count is a multiple of 8.
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

// to[i * stride] = from[i], i in [0, count), elements of kBytes.
template <int kBytes>
void Scatter(const void* from, int32_t count, int64_t stride, std::byte* to) {
  const auto* bytes = static_cast<const std::byte*>(from);
  for (int32_t i = 0; i < count; ++i)
    std::memcpy(to + i * stride * kBytes, bytes + i * kBytes, kBytes);
}

}  // namespace

void WriteKey(const KvLayout& layout, std::byte* piece, int32_t slot, const float* x) {
  std::byte* first = piece + layout.KeyOffset(slot, 0);
  const int64_t tokens = layout.group_tokens();
  const int32_t head_dim = layout.head_dim();
  if (layout.dtype() == DType::kF32) return Scatter<4>(x, head_dim, tokens, first);
  uint16_t halves[kMaxHeadDim];
  RoundToHalves(layout.dtype(), x, head_dim, halves);
  if (layout.dtype() == DType::kF16) return Scatter<2>(halves, head_dim, tokens, first);
  Scatter<4>(halves, head_dim / 2, tokens, first);  // pairs (d, d + 1)
}

void WriteValue(const KvLayout& layout, std::byte* piece, int32_t slot, const float* x) {
  std::byte* row = piece + layout.ValueOffset(slot, 0);
  const int32_t head_dim = layout.head_dim();
  if (layout.dtype() == DType::kF32) {
    std::memcpy(row, x, static_cast<size_t>(head_dim) * sizeof(float));
    return;
  }
  uint16_t halves[kMaxHeadDim];
  RoundToHalves(layout.dtype(), x, head_dim, halves);
  int32_t d = 0;
  if (layout.dtype() == DType::kBF16) {
    for (; d + 32 <= head_dim; d += 32) {  // d beside d + 16
      const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(halves + d));
      const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(halves + d + 16));
      const __m256i even = _mm256_unpacklo_epi16(low, high);
      const __m256i odd = _mm256_unpackhi_epi16(low, high);
      auto* to = reinterpret_cast<__m256i*>(row + 2 * d);
      _mm256_storeu_si256(to, _mm256_permute2x128_si256(even, odd, 0x20));
      _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(even, odd, 0x31));
    }
  }
  std::memcpy(row + 2 * d, halves + d, static_cast<size_t>(head_dim - d) * sizeof(uint16_t));
}

}  // namespace octavo
