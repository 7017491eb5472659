#include "worker/cpu/packed_panels.h"

#include <algorithm>
#include <cstring>

#include "common/check.h"

namespace octavo {
namespace {

// One K-block of one row inside a panel.
class RowBlock {
 public:
  RowBlock(uint8_t* block, int row) : block_(block), half_(row / 16), lane_(row % 16) {}

  void PutHalf(int64_t offset, const uint8_t* fp16) {
    std::memcpy(block_ + offset + half_ * 32 + lane_ * 2, fp16, 2);
  }
  void PutByte(int64_t offset, uint8_t value) { block_[offset + half_ * 16 + lane_] = value; }
  // The row's lane of vector pair `pair`.
  void PutWord(int64_t offset, int64_t pair, uint32_t value) {
    std::memcpy(block_ + offset + pair * 128 + half_ * 64 + lane_ * 4, &value, 4);
  }

  void PutNibbles(const uint8_t q[kBlockK]) {
    for (int j = 0; j < 4; ++j) PutWord(0, j, LowNibbles(q + 8 * j));
  }
  // Bit `bit` of each q as one bit plane.
  void PutBits(int64_t offset, const uint8_t q[kBlockK], int bit) {
    uint32_t plane = 0;
    for (int k = 0; k < kBlockK; ++k) plane |= uint32_t{q[k] >> bit & 1u} << k;
    PutWord(offset, 0, plane);
  }
  void PutBitPairs(int64_t offset, const uint8_t q[kBlockK], int bit) {
    for (int pair = 0; pair < 2; ++pair) {
      uint32_t plane = 0;
      for (int k = 0; k < 16; ++k) plane |= uint32_t{q[16 * pair + k] >> bit & 3u} << 2 * k;
      PutWord(offset, pair, plane);
    }
  }

 private:
  // Bits 0-3 of eight bytes, in order of address.
  static uint32_t LowNibbles(const uint8_t* bytes) {
    uint64_t v;
    std::memcpy(&v, bytes, 8);
    v &= 0x0F0F0F0F0F0F0F0F;
    v = (v | v >> 4) & 0x00FF00FF00FF00FF;
    v = (v | v >> 8) & 0x0000FFFF0000FFFF;
    return static_cast<uint32_t>(v | v >> 16);
  }

  uint8_t* block_;
  int half_;
  int lane_;
};

// 32 quants stored as 16 bytes: low nibbles are the first 16.
void UnpackNibbles(const uint8_t* stored, uint8_t q[kBlockK]) {
  for (int k = 0; k < 16; ++k) q[k] = stored[k] & 15;
  for (int k = 0; k < 16; ++k) q[16 + k] = stored[k] >> 4;
}

// Scale and min number `i` (0-7) of a K-quant super-block: 6 bits each in 12 bytes.
void UnpackScaleMin(const uint8_t* packed, int i, uint8_t& scale, uint8_t& min) {
  if (i < 4) {
    scale = packed[i] & 63;
    min = packed[i + 4] & 63;
  } else {
    scale = static_cast<uint8_t>((packed[i + 4] & 15) | packed[i - 4] >> 6 << 4);
    min = static_cast<uint8_t>(packed[i + 4] >> 4 | packed[i] >> 6 << 4);
  }
}

void EncodeFloats(const uint8_t* row, int64_t k, int64_t count, int element_bytes, bool pairs,
                  int panel_row, uint8_t* block) {
  const int half = panel_row / 16;
  const int lane = panel_row % 16;
  for (int64_t i = 0; i < count; ++i) {
    uint8_t* target = pairs ? block + i / 2 * 128 + half * 64 + lane * 4 + i % 2 * 2
                            : block + (i * kPanelRows + panel_row) * element_bytes;
    std::memcpy(target, row + (k + i) * element_bytes, static_cast<size_t>(element_bytes));
  }
}

// Formats whose storage block is 32 elements.
void EncodeSimple(PackFormat format, const uint8_t* stored, RowBlock target) {
  uint8_t q[kBlockK];
  switch (format) {
    case PackFormat::kQ8_0:
      for (int j = 0; j < 8; ++j) {
        uint32_t word;
        std::memcpy(&word, stored + 2 + 4 * j, 4);
        target.PutWord(0, j, word ^ 0x80808080u);
      }
      return target.PutHalf(1024, stored);
    case PackFormat::kQ4_0:
      UnpackNibbles(stored + 2, q);
      target.PutNibbles(q);
      return target.PutHalf(512, stored);
    case PackFormat::kQ4_1:
      UnpackNibbles(stored + 4, q);
      target.PutNibbles(q);
      target.PutHalf(512, stored);
      return target.PutHalf(576, stored + 2);
    default:
      break;
  }
  const bool has_min = format == PackFormat::kQ5_1;
  const uint8_t* bits = stored + (has_min ? 4 : 2);
  uint32_t plane;
  std::memcpy(&plane, bits, 4);
  UnpackNibbles(bits + 4, q);
  target.PutNibbles(q);
  target.PutWord(512, 0, plane);
  target.PutHalf(640, stored);
  if (has_min) target.PutHalf(704, stored + 2);
}

// Blocks 0-7 of a Q4_K or Q5_K super-block.
void EncodeQ45K(bool five, const uint8_t* stored, int block, RowBlock target) {
  const uint8_t* nibbles = stored + (five ? 48 : 16) + block / 2 * 32;
  uint8_t q[kBlockK];
  for (int k = 0; k < kBlockK; ++k) q[k] = nibbles[k] >> (block % 2 * 4) & 15;
  target.PutNibbles(q);
  int64_t scales = 512;
  if (five) {
    target.PutBits(scales, stored + 16, block);
    scales += 128;
  }
  uint8_t scale;
  uint8_t min;
  UnpackScaleMin(stored + 4, block, scale, min);
  target.PutByte(scales, scale);
  target.PutByte(scales + 32, min);
}

void EncodeQ6K(const uint8_t* stored, int block, RowBlock target) {
  const int half = block / 4;
  const int quarter = block % 4;
  const uint8_t* low = stored + half * 64 + quarter % 2 * 32;
  const uint8_t* high = stored + 128 + half * 32;
  uint8_t q[kBlockK];
  for (int k = 0; k < kBlockK; ++k) q[k] = low[k] >> (quarter / 2 * 4) & 15;
  target.PutNibbles(q);
  target.PutBitPairs(512, high, 2 * quarter);
  const uint8_t* scales = stored + 192 + half * 8 + quarter * 2;
  target.PutByte(768, scales[0]);
  target.PutByte(800, scales[1]);
}

// One super-block of 256 elements.
void EncodeSuperBlock(PackFormat format, const uint8_t* stored, int panel_row, uint8_t* target) {
  const PackLayout layout = LayoutOf(format);
  RowBlock header(target, panel_row);
  if (format == PackFormat::kQ6_K) {
    header.PutHalf(0, stored + 208);
  } else {
    header.PutHalf(0, stored);
    header.PutHalf(64, stored + 2);
  }
  for (int block = 0; block < 8; ++block) {
    const RowBlock row_block(target + layout.header_bytes + block * layout.block_bytes, panel_row);
    if (format == PackFormat::kQ6_K) {
      EncodeQ6K(stored, block, row_block);
    } else {
      EncodeQ45K(format == PackFormat::kQ5_K, stored, block, row_block);
    }
  }
}

int StoredBytes(PackFormat format) {
  switch (format) {
    case PackFormat::kF32:
      return 4;
    case PackFormat::kF16:
      return 2;
    case PackFormat::kBF16:
      return 2;
    case PackFormat::kQ8_0:
      return 34;
    case PackFormat::kQ4_0:
      return 18;
    case PackFormat::kQ4_1:
      return 20;
    case PackFormat::kQ5_0:
      return 22;
    case PackFormat::kQ5_1:
      return 24;
    case PackFormat::kQ4_K:
      return 144;
    case PackFormat::kQ5_K:
      return 176;
    case PackFormat::kQ6_K:
      return 210;
  }
  OCTAVO_CHECK(false, "pack format ", static_cast<int>(format));
}

}  // namespace

std::optional<PackFormat> PackFormatOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return PackFormat::kF32;
    case DType::kF16:
      return PackFormat::kF16;
    case DType::kBF16:
      return PackFormat::kBF16;
    case DType::kQ8_0:
      return PackFormat::kQ8_0;
    case DType::kQ4_0:
      return PackFormat::kQ4_0;
    case DType::kQ4_1:
      return PackFormat::kQ4_1;
    case DType::kQ5_0:
      return PackFormat::kQ5_0;
    case DType::kQ5_1:
      return PackFormat::kQ5_1;
    case DType::kQ4_K:
      return PackFormat::kQ4_K;
    case DType::kQ5_K:
      return PackFormat::kQ5_K;
    case DType::kQ6_K:
      return PackFormat::kQ6_K;
    case DType::kI8:
    case DType::kF8E4M3:
    case DType::kF8E5M2:
      break;
  }
  return std::nullopt;
}

void EncodePanel(PackFormat format, const std::byte* const rows[kPanelRows], int64_t cols,
                 uint8_t* panel) {
  const PackLayout layout = LayoutOf(format);
  const int64_t blocks = (cols + kBlockK - 1) / kBlockK;
  const int stored_bytes = StoredBytes(format);
  const bool is_float = format <= PackFormat::kBF16;
  for (int r = 0; r < kPanelRows; ++r) {
    if (rows[r] == nullptr) continue;
    const uint8_t* row = reinterpret_cast<const uint8_t*>(rows[r]);
    if (layout.super_blocks > 1) {
      const int64_t target_bytes = PanelBytes(format, layout.super_blocks);
      for (int64_t s = 0; s < blocks / layout.super_blocks; ++s)
        EncodeSuperBlock(format, row + s * stored_bytes, r, panel + s * target_bytes);
      continue;
    }
    for (int64_t b = 0; b < blocks; ++b) {
      uint8_t* block = panel + b * layout.block_bytes;
      if (is_float) {
        EncodeFloats(row, b * kBlockK, std::min<int64_t>(kBlockK, cols - b * kBlockK), stored_bytes,
                     format == PackFormat::kBF16, r, block);
      } else {
        EncodeSimple(format, row + b * stored_bytes, RowBlock(block, r));
      }
    }
  }
}

}  // namespace octavo
