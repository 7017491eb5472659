#include "worker/cuda/quant_pack.h"

#include <cuda_fp16.h>

#include <algorithm>
#include <cstring>

#include "common/check.h"
#include "common/checkpoint/dequantize.h"

namespace octavo::cuda {
namespace {

// Thirty-two weights: scale * code + min; scale and min are fp16.
struct Group {
  int8_t codes[kQuantGroup] = {};
  uint16_t scale = 0;
  uint16_t min = 0;
};

uint32_t Byte(const std::byte* data, int64_t index) {
  return std::to_integer<uint32_t>(data[index]);
}
uint16_t Load16(const std::byte* data) {
  return static_cast<uint16_t>(Byte(data, 0) | Byte(data, 1) << 8);
}
uint16_t ToHalf(float value) { return __half_as_ushort(__float2half_rn(value)); }

bool HasMin(DType dtype) {
  return dtype == DType::kQ4_1 || dtype == DType::kQ5_1 || dtype == DType::kQ4_K ||
         dtype == DType::kQ5_K;
}

// The formats of 32 columns (common/checkpoint/dequantize.cc): nibbles of element j and j + 16 in
// byte j, a fifth bit in bit j of a word before them.
void ReadNibbles(const std::byte* nibbles, const std::byte* fifth_bits, int offset, Group& group) {
  uint32_t high = 0;
  if (fifth_bits != nullptr) std::memcpy(&high, fifth_bits, sizeof(high));
  for (int j = 0; j < kQuantGroup; ++j) {
    const uint32_t low = Byte(nibbles, j % 16) >> (j / 16 * 4) & 15;
    group.codes[j] = static_cast<int8_t>(static_cast<int>(low | (high >> j & 1) << 4) - offset);
  }
}

// Q4_K and Q5_K: number `index` (0 to 7) of the groups of a block of 256.
void ReadKGroup(DType dtype, const std::byte* block, int index, Group& group) {
  const std::byte* packed = block + 4;
  uint32_t scale, min;
  if (index < 4) {
    scale = Byte(packed, index) & 63;
    min = Byte(packed, index + 4) & 63;
  } else {
    scale = (Byte(packed, index + 4) & 15) | Byte(packed, index - 4) >> 6 << 4;
    min = Byte(packed, index + 4) >> 4 | Byte(packed, index) >> 6 << 4;
  }
  group.scale = ToHalf(HalfToFloat(Load16(block)) * static_cast<float>(scale));
  group.min = ToHalf(-HalfToFloat(Load16(block + 2)) * static_cast<float>(min));
  const std::byte* high = dtype == DType::kQ5_K ? block + 16 : nullptr;
  const std::byte* low = block + (high != nullptr ? 48 : 16) + index / 2 * kQuantGroup;
  for (int j = 0; j < kQuantGroup; ++j) {
    uint32_t code = Byte(low, j) >> (index % 2 * 4) & 15;
    if (high != nullptr) code |= (Byte(high, j) >> index & 1) << 4;
    group.codes[j] = static_cast<int8_t>(code);
  }
}

void ReadGroup(DType dtype, const std::byte* row, int64_t index, Group& group) {
  const DTypeInfo info = Info(dtype);
  const int64_t groups_per_block = info.block_elements / kQuantGroup;
  const std::byte* block = row + index / groups_per_block * info.block_bytes;
  group.scale = Load16(block);
  group.min = 0;
  switch (dtype) {
    case DType::kQ8_0:
      std::memcpy(group.codes, block + 2, kQuantGroup);
      return;
    case DType::kQ4_0:
      return ReadNibbles(block + 2, nullptr, 8, group);
    case DType::kQ5_0:
      return ReadNibbles(block + 6, block + 2, 16, group);
    case DType::kQ4_1:
      group.min = Load16(block + 2);
      return ReadNibbles(block + 4, nullptr, 0, group);
    case DType::kQ5_1:
      group.min = Load16(block + 2);
      return ReadNibbles(block + 8, block + 4, 0, group);
    case DType::kQ4_K:
    case DType::kQ5_K:
      return ReadKGroup(dtype, block, static_cast<int>(index % groups_per_block), group);
    default:
      OCTAVO_CHECK(false, "no packed format for ", info.name);
  }
}

// The groups of 16 rows become a unit.
void WriteUnit(const Group (&rows)[kQuantTile], QuantFormat format, std::byte* out) {
  const int code_bytes = QuantCodeBytes(format.bits);
  const uint32_t offset = format.bits == 4 && !format.has_min ? 8 : 0;
  for (int lane = 0; lane < 32; ++lane) {
    const int g = lane / 4, first = lane % 4 * 8;
    uint32_t words[4] = {};
    for (int f = 0; f < 2; ++f)
      for (int j = 0; j < 4; ++j) {  // registers of operand A
        const int8_t* codes = rows[g + j % 2 * 8].codes + first + 4 * f + j / 2 * 2;
        for (int odd = 0; odd < 2; ++odd) {
          const auto code = static_cast<uint32_t>(codes[odd]);
          if (format.bits == 4)
            words[f] |= ((code + offset) & 15) << 4 * (j + 4 * odd);
          else
            words[2 * f + j / 2] |= (code & 255) << 8 * (j % 2 + 2 * odd);
        }
      }
    std::memcpy(out + lane * code_bytes / 32, words, static_cast<size_t>(code_bytes / 32));
  }
  for (int g = 0; g < 8; ++g) {
    const uint16_t halves[4] = {rows[g].scale, rows[g + 8].scale, rows[g].min, rows[g + 8].min};
    const size_t bytes = format.has_min ? 8 : 4;
    std::memcpy(out + code_bytes + static_cast<size_t>(g) * bytes, halves, bytes);
  }
}

// Of the stacked rows; nullptr past their end.
const std::byte* StackedRow(const std::vector<WeightView>& parts, int64_t row, DType* dtype) {
  for (const WeightView& part : parts) {
    *dtype = part.dtype;
    if (row < part.rows) return part.row(row);
    row -= part.rows;
  }
  return nullptr;
}

}  // namespace

std::optional<QuantFormat> QuantFormatOf(const std::vector<WeightView>& parts) {
  bool all_q4_0 = true, all_four_with_min = true;
  QuantFormat format;
  for (const WeightView& part : parts) {
    if (IsFloat(part.dtype) || IsEightBit(part.dtype) || part.dtype == DType::kQ6_K)
      return std::nullopt;
    all_q4_0 &= part.dtype == DType::kQ4_0;
    all_four_with_min &= part.dtype == DType::kQ4_1 || part.dtype == DType::kQ4_K;
    format.has_min |= HasMin(part.dtype);
  }
  format.bits = all_q4_0 || all_four_with_min ? 4 : 8;
  return format;
}

void PackQuantUnits(const std::vector<WeightView>& parts, QuantFormat format, int64_t first,
                    int64_t count, std::byte* out) {
  const int64_t groups = parts.front().cols / kQuantGroup;
  const int64_t chunks = QuantChunks(parts.front().cols);
  const int unit_bytes = QuantUnitBytes(format.bits, format.has_min);
  DType dtypes[kQuantTile];
  const std::byte* stored[kQuantTile];
  int64_t tile = -1;
  for (int64_t unit = first; unit < first + count; ++unit, out += unit_bytes) {
    const int64_t block = unit / kQuantBlockUnits, in_block = unit % kQuantBlockUnits;
    const int64_t group = block % chunks * kQuantChunkGroups + in_block % kQuantChunkGroups;
    const int64_t wanted = block / chunks * kQuantBlockTiles + in_block / kQuantChunkGroups;
    if (wanted != tile) {
      tile = wanted;
      for (int r = 0; r < kQuantTile; ++r)
        stored[r] = StackedRow(parts, tile * kQuantTile + r, &dtypes[r]);
    }
    Group rows[kQuantTile];
    for (int r = 0; r < kQuantTile; ++r)
      if (stored[r] != nullptr && group < groups) ReadGroup(dtypes[r], stored[r], group, rows[r]);
    WriteUnit(rows, format, out);
  }
}

}  // namespace octavo::cuda
