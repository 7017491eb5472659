// The layout of packed weights: what packed_panels.cc writes and the matmul kernels read.
//
// A panel is 32 output rows, stored as consecutive K-blocks of 32 inputs. Half h (0, 1) of a panel
// is 16 rows, one per SIMD lane, so no kernel ever adds across lanes and every batch size runs the
// same float sequence per output. A vector below is 16 lanes of 32 bits = 64 bytes, lane = row.
//
//   format  one K-block of 32 inputs x 32 rows, in order bits/weight kF32    [32 k][2 h] vectors of
//   float                                                       32 kF16    [32 k][2 h][16 rows]
//   fp16                                                          16 kBF16   [16 k/2][2 h] vectors
//   of the pair (k even low, k odd high)                         16 kQ8_0   [8 k/4][2 h] vectors of
//   4 bytes q + 128; d                                        8.5 kQ4_0   nibbles; d 4.5 kQ4_1
//   nibbles; d; m                                                                        5 kQ5_0
//   nibbles; [2 h] vectors, bit k = bit 4 of q; d                                      5.5 kQ5_1
//   nibbles; the same bits; d; m                                                         6 kQ4_K
//   nibbles; [2 h][16] u8 scale; [2 h][16] u8 min                                      4.6 kQ5_K
//   nibbles; bits; u8 scale; u8 min                                                    5.6 kQ6_K
//   nibbles; [2 k/16][2 h] vectors of 16 bit pairs = bits 4, 5 of q; [2 k/16][2 h][16] i8  6.6
//
// nibbles: [4 k/8][2 h] vectors, nibble i of a lane = bits 0-3 of q at k = 8 j + i. d and m:
// [2 h][16] fp16. K-quants group 8 blocks into a super-block that starts with a header: d, then
// (not kQ6_K) dmin.
#ifndef OCTAVO_WORKER_CPU_PACKED_FORMAT_H_
#define OCTAVO_WORKER_CPU_PACKED_FORMAT_H_

#include <cstdint>

namespace octavo {

enum class PackFormat : uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ4_K,
  kQ5_K,
  kQ6_K,
};

constexpr int kPanelRows = 32;
constexpr int kBlockK = 32;

struct PackLayout {
  int32_t block_bytes = 0;   // of one K-block of a panel
  int32_t super_blocks = 1;  // K-blocks behind one header
  int32_t header_bytes = 0;
};

constexpr PackLayout LayoutOf(PackFormat format) {
  constexpr int32_t kNibbles = 512;
  constexpr int32_t kHalves = 64;  // one fp16 per row
  switch (format) {
    case PackFormat::kF32:
      return {4096};
    case PackFormat::kF16:
      return {2048};
    case PackFormat::kBF16:
      return {2048};
    case PackFormat::kQ8_0:
      return {1024 + kHalves};
    case PackFormat::kQ4_0:
      return {kNibbles + kHalves};
    case PackFormat::kQ4_1:
      return {kNibbles + 2 * kHalves};
    case PackFormat::kQ5_0:
      return {kNibbles + 128 + kHalves};
    case PackFormat::kQ5_1:
      return {kNibbles + 128 + 2 * kHalves};
    case PackFormat::kQ4_K:
      return {kNibbles + 64, 8, 2 * kHalves};
    case PackFormat::kQ5_K:
      return {kNibbles + 128 + 64, 8, 2 * kHalves};
    case PackFormat::kQ6_K:
      return {kNibbles + 256 + 64, 8, kHalves};
  }
  return {};
}

// Bytes of one panel with `blocks` K-blocks. REQUIRES: whole super-blocks.
constexpr int64_t PanelBytes(PackFormat format, int64_t blocks) {
  const PackLayout layout = LayoutOf(format);
  return blocks * layout.block_bytes + blocks / layout.super_blocks * layout.header_bytes;
}

}  // namespace octavo

#endif  // OCTAVO_WORKER_CPU_PACKED_FORMAT_H_
