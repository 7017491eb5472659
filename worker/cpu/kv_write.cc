#include "worker/cpu/kv_write.h"

#include <immintrin.h>

#include <cstring>

#include "worker/cpu/kv_rounding.h"

namespace octavo {
namespace {

// A head's K or V in the pool's element type, in order of d.
struct RoundedRow {
  alignas(32) uint8_t bytes[kMaxHeadDim * sizeof(uint16_t)];
  uint16_t scale = 0;  // of int8
};

// REQUIRES: not float32, which is stored as it is.
void Round(const KvLayout& layout, const float* x, RoundedRow* row) {
  switch (layout.dtype()) {
    case DType::kI8:
      row->scale = RoundToInt8(x, layout.head_dim(), reinterpret_cast<int8_t*>(row->bytes));
      return;
    case DType::kF8E4M3:
    case DType::kF8E5M2:
      return RoundToFloat8(layout.dtype(), x, layout.head_dim(), row->bytes);
    default:
      return RoundToHalves(layout.dtype(), x, layout.head_dim(),
                           reinterpret_cast<uint16_t*>(row->bytes));
  }
}

// to[i * stride] = from[i], i in [0, count), elements of kBytes.
template <int kBytes>
void Scatter(const void* from, int32_t count, int64_t stride, std::byte* to) {
  const auto* bytes = static_cast<const std::byte*>(from);
  for (int32_t i = 0; i < count; ++i)
    std::memcpy(to + i * stride * kBytes, bytes + i * kBytes, kBytes);
}

// d beside d + 16 of each whole 32; returns how many elements that were.
int32_t InterleaveHalves(const uint8_t* from, int32_t head_dim, std::byte* to) {
  int32_t d = 0;
  for (; d + 32 <= head_dim; d += 32) {
    const auto* row = reinterpret_cast<const __m256i*>(from + 2 * d);
    const __m256i low = _mm256_loadu_si256(row);
    const __m256i high = _mm256_loadu_si256(row + 1);
    const __m256i even = _mm256_unpacklo_epi16(low, high);
    const __m256i odd = _mm256_unpackhi_epi16(low, high);
    auto* out = reinterpret_cast<__m256i*>(to + 2 * d);
    _mm256_storeu_si256(out, _mm256_permute2x128_si256(even, odd, 0x20));
    _mm256_storeu_si256(out + 1, _mm256_permute2x128_si256(even, odd, 0x31));
  }
  return d;
}

int32_t InterleaveBytes(const uint8_t* from, int32_t head_dim, std::byte* to) {
  int32_t d = 0;
  for (; d + 32 <= head_dim; d += 32) {
    const auto* row = reinterpret_cast<const __m128i*>(from + d);
    const __m128i low = _mm_loadu_si128(row);
    const __m128i high = _mm_loadu_si128(row + 1);
    auto* out = reinterpret_cast<__m128i*>(to + d);
    _mm_storeu_si128(out, _mm_unpacklo_epi8(low, high));
    _mm_storeu_si128(out + 1, _mm_unpackhi_epi8(low, high));
  }
  return d;
}

void WriteScale(int64_t offset, uint16_t scale, std::byte* piece) {
  std::memcpy(piece + offset, &scale, sizeof(scale));
}

}  // namespace

void WriteKey(const KvLayout& layout, std::byte* piece, int32_t slot, const float* x) {
  std::byte* first = piece + layout.KeyOffset(slot, 0);
  const int64_t tokens = layout.group_tokens();
  const int32_t head_dim = layout.head_dim();
  if (layout.dtype() == DType::kF32) return Scatter<4>(x, head_dim, tokens, first);
  RoundedRow row;
  Round(layout, x, &row);
  switch (layout.dtype()) {
    case DType::kI8:
      WriteScale(layout.KeyScaleOffset(slot), row.scale, piece);
      return Scatter<1>(row.bytes, head_dim, tokens, first);
    case DType::kF8E4M3:
    case DType::kF8E5M2:
      return Scatter<2>(row.bytes, head_dim / 2, tokens, first);  // pairs (d, d + 1)
    case DType::kF16:
      return Scatter<2>(row.bytes, head_dim, tokens, first);
    default:
      return Scatter<4>(row.bytes, head_dim / 2, tokens, first);  // pairs (d, d + 1)
  }
}

void WriteValue(const KvLayout& layout, std::byte* piece, int32_t slot, const float* x) {
  std::byte* to = piece + layout.ValueOffset(slot, 0);
  const int32_t head_dim = layout.head_dim();
  const auto bytes = static_cast<int32_t>(StorageBytes(layout.dtype(), 1));
  if (layout.dtype() == DType::kF32) {
    std::memcpy(to, x, static_cast<size_t>(head_dim) * sizeof(float));
    return;
  }
  RoundedRow row;
  Round(layout, x, &row);
  if (layout.dtype() == DType::kI8) WriteScale(layout.ValueScaleOffset(slot), row.scale, piece);
  int32_t d = 0;
  if (layout.paired())
    d = bytes == 1 ? InterleaveBytes(row.bytes, head_dim, to)
                   : InterleaveHalves(row.bytes, head_dim, to);
  std::memcpy(to + d * bytes, row.bytes + d * bytes, static_cast<size_t>((head_dim - d) * bytes));
}

}  // namespace octavo
