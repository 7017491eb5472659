#include "common/checkpoint/dequantize.h"

#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace octavo {
namespace {

uint32_t Byte(const std::byte* data, int64_t index) {
  return std::to_integer<uint32_t>(data[index]);
}

uint16_t Load16(const std::byte* data) {
  return static_cast<uint16_t>(Byte(data, 0) | Byte(data, 1) << 8);
}

uint32_t Load32(const std::byte* data) {
  return static_cast<uint32_t>(Load16(data)) | static_cast<uint32_t>(Load16(data + 2)) << 16;
}

float LoadHalf(const std::byte* data) { return HalfToFloat(Load16(data)); }

// The five 32-element formats keep element j in the low and element j + 16 in the high nibble of
// byte j; the 5-bit ones keep the fifth bit of element j in bit j of a word.
void DequantizeQ4_0(const std::byte* block, float* out) {
  const float d = LoadHalf(block);
  for (int j = 0; j < 16; ++j) {
    const auto q = static_cast<int>(Byte(block + 2, j));
    out[j] = static_cast<float>((q & 15) - 8) * d;
    out[j + 16] = static_cast<float>((q >> 4) - 8) * d;
  }
}

void DequantizeQ4_1(const std::byte* block, float* out) {
  const float d = LoadHalf(block);
  const float m = LoadHalf(block + 2);
  for (int j = 0; j < 16; ++j) {
    const uint32_t q = Byte(block + 4, j);
    out[j] = static_cast<float>(q & 15) * d + m;
    out[j + 16] = static_cast<float>(q >> 4) * d + m;
  }
}

void DequantizeQ5_0(const std::byte* block, float* out) {
  const float d = LoadHalf(block);
  const uint32_t high = Load32(block + 2);
  for (int j = 0; j < 16; ++j) {
    const uint32_t q = Byte(block + 6, j);
    const uint32_t first = (q & 15) | (high >> j & 1) << 4;
    const uint32_t second = q >> 4 | (high >> (j + 16) & 1) << 4;
    out[j] = static_cast<float>(static_cast<int>(first) - 16) * d;
    out[j + 16] = static_cast<float>(static_cast<int>(second) - 16) * d;
  }
}

void DequantizeQ5_1(const std::byte* block, float* out) {
  const float d = LoadHalf(block);
  const float m = LoadHalf(block + 2);
  const uint32_t high = Load32(block + 4);
  for (int j = 0; j < 16; ++j) {
    const uint32_t q = Byte(block + 8, j);
    out[j] = static_cast<float>((q & 15) | (high >> j & 1) << 4) * d + m;
    out[j + 16] = static_cast<float>(q >> 4 | (high >> (j + 16) & 1) << 4) * d + m;
  }
}

void DequantizeQ8_0(const std::byte* block, float* out) {
  const float d = LoadHalf(block);
  for (int j = 0; j < 32; ++j) {
    out[j] = static_cast<float>(static_cast<int8_t>(Byte(block + 2, j))) * d;
  }
}

// Q4_K and Q5_K: eight groups of 32 share 12 bytes of 6-bit scales and minima.
struct ScaleAndMin {
  float scale;
  float min;
};

ScaleAndMin GroupScale(const std::byte* packed, int group) {
  if (group < 4) {
    return {static_cast<float>(Byte(packed, group) & 63),
            static_cast<float>(Byte(packed, group + 4) & 63)};
  }
  const uint32_t low = Byte(packed, group + 4);
  return {static_cast<float>((low & 15) | Byte(packed, group - 4) >> 6 << 4),
          static_cast<float>(low >> 4 | Byte(packed, group) >> 6 << 4)};
}

// d, dmin (fp16), 12 bytes of scales, 128 bytes of nibbles: groups 2k and 2k + 1 are the low and
// high nibbles of bytes 32k to 32k + 31.
void DequantizeQ4_K(const std::byte* block, float* out) {
  const float d = LoadHalf(block);
  const float dmin = LoadHalf(block + 2);
  const std::byte* quants = block + 16;
  for (int group = 0; group < 8; ++group) {
    const ScaleAndMin packed = GroupScale(block + 4, group);
    const float scale = d * packed.scale;
    const float min = dmin * packed.min;
    for (int l = 0; l < 32; ++l) {
      const uint32_t q = Byte(quants, group / 2 * 32 + l) >> (group % 2 * 4) & 15;
      out[group * 32 + l] = scale * static_cast<float>(q) - min;
    }
  }
}

// As Q4_K, with bit `group` of byte l of 32 more bytes as the fifth bit.
void DequantizeQ5_K(const std::byte* block, float* out) {
  const float d = LoadHalf(block);
  const float dmin = LoadHalf(block + 2);
  const std::byte* high = block + 16;
  const std::byte* quants = block + 48;
  for (int group = 0; group < 8; ++group) {
    const ScaleAndMin packed = GroupScale(block + 4, group);
    const float scale = d * packed.scale;
    const float min = dmin * packed.min;
    for (int l = 0; l < 32; ++l) {
      const uint32_t low = Byte(quants, group / 2 * 32 + l) >> (group % 2 * 4) & 15;
      const uint32_t q = low | (Byte(high, l) >> group & 1) << 4;
      out[group * 32 + l] = scale * static_cast<float>(q) - min;
    }
  }
}

// 128 bytes of low nibbles, 64 of high bit pairs, 16 int8 scales (one per 16 elements), d (fp16).
// Each half of the block holds four runs of 32: run r has its low bits in nibble r / 2 of bytes
// 32 (r % 2) + l, its high bits in pair r of byte l.
void DequantizeQ6_K(const std::byte* block, float* out) {
  const float d = LoadHalf(block + 208);
  for (int half = 0; half < 2; ++half) {
    const std::byte* low = block + half * 64;
    const std::byte* high = block + 128 + half * 32;
    const std::byte* scales = block + 192 + half * 8;
    for (int run = 0; run < 4; ++run) {
      for (int l = 0; l < 32; ++l) {
        const uint32_t q = (Byte(low, run % 2 * 32 + l) >> (run / 2 * 4) & 15) |
                           (Byte(high, l) >> (run * 2) & 3) << 4;
        const auto scale = static_cast<int8_t>(Byte(scales, run * 2 + l / 16));
        out[half * 128 + run * 32 + l] =
            d * static_cast<float>(scale) * static_cast<float>(static_cast<int>(q) - 32);
      }
    }
  }
}

using BlockFunction = void (*)(const std::byte*, float*);

void ForBlocks(BlockFunction function, DTypeInfo info, const std::byte* src, int64_t elements,
               float* out) {
  for (int64_t i = 0; i < elements; i += info.block_elements) {
    function(src, out + i);
    src += info.block_bytes;
  }
}

}  // namespace

float HalfToFloat(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = bits >> 10 & 31;
  const uint32_t fraction = bits & 0x3ff;
  if (exponent == 0) {  // zero or subnormal: fraction * 2^-24
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  const uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

float BFloat16ToFloat(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

absl::Status DequantizeRow(DType dtype, const std::byte* src, int64_t elements, float* out) {
  const DTypeInfo info = Info(dtype);
  if (elements < 0 || elements % info.block_elements != 0) {
    return absl::InvalidArgumentError(absl::StrCat("a row of ", elements, " elements of type ",
                                                   info.name, " is not a multiple of the block of ",
                                                   info.block_elements));
  }
  switch (dtype) {
    case DType::kF32:
      for (int64_t i = 0; i < elements; ++i) out[i] = std::bit_cast<float>(Load32(src + 4 * i));
      return absl::OkStatus();
    case DType::kF16:
      for (int64_t i = 0; i < elements; ++i) out[i] = LoadHalf(src + 2 * i);
      return absl::OkStatus();
    case DType::kBF16:
      for (int64_t i = 0; i < elements; ++i) out[i] = BFloat16ToFloat(Load16(src + 2 * i));
      return absl::OkStatus();
    case DType::kQ4_0:
      ForBlocks(DequantizeQ4_0, info, src, elements, out);
      break;
    case DType::kQ4_1:
      ForBlocks(DequantizeQ4_1, info, src, elements, out);
      break;
    case DType::kQ5_0:
      ForBlocks(DequantizeQ5_0, info, src, elements, out);
      break;
    case DType::kQ5_1:
      ForBlocks(DequantizeQ5_1, info, src, elements, out);
      break;
    case DType::kQ8_0:
      ForBlocks(DequantizeQ8_0, info, src, elements, out);
      break;
    case DType::kQ4_K:
      ForBlocks(DequantizeQ4_K, info, src, elements, out);
      break;
    case DType::kQ5_K:
      ForBlocks(DequantizeQ5_K, info, src, elements, out);
      break;
    case DType::kQ6_K:
      ForBlocks(DequantizeQ6_K, info, src, elements, out);
      break;
    case DType::kI8:
    case DType::kF8E4M3:
    case DType::kF8E5M2:
      return absl::UnimplementedError(
          absl::StrCat(info.name, " is a KV cache type; no weights are stored in it"));
  }
  return absl::OkStatus();
}

}  // namespace octavo
