// Weights of 4 and 8 bits on the device: where each code, scale and minimum lies.
//
// A row is cut into groups of 32 columns; a weight is scale * code, plus the group's minimum in
// formats that have one. Sixteen rows of one group are a unit, 16 * 32 weights that a warp
// multiplies with two mma.m16n8k16: first the codes as the lanes want them, then the scales (and
// minima) in fp16. Memory is [64 rows][64 columns][16 rows][group]: what a block of threads needs
// at a time lies together, and a warp copies it with one address and constant offsets. Rows and
// columns past the end are zero.
//
// Lane l has group g = l / 4 and number t = l % 4. It holds columns 8t .. 8t + 7 of rows g and
// g + 8. Product f (0, 1) takes columns 8t + 4f + i, i = 0..3: register 0 of operand A is row g,
// i = 0 and 1; register 1 row g + 8, the same; registers 2 and 3 are i = 2 and 3. Which column is
// which k of the instruction does not matter as long as x is read in the same order, so eight
// neighbouring elements of x, 16 bytes, are the lane's operand B of both products.
//   4 bits  [lane][word f]: nibble j is the even and nibble 4 + j the odd column of register j;
//           the code is the nibble, less 8 where there is no minimum
//   8 bits  [lane][word 2f + h]: bytes 0 and 2 are register 2h, bytes 1 and 3 register 2h + 1;
//           codes are two's complement
// Scales: [g] {row g, row g + 8}, or [g] {scale of g, of g + 8, minimum of g, of g + 8}.
#ifndef OCTAVO_WORKER_CUDA_KERNELS_QUANT_LAYOUT_H_
#define OCTAVO_WORKER_CUDA_KERNELS_QUANT_LAYOUT_H_

#include <cuda_runtime_api.h>

#include <cstdint>

namespace octavo::cuda {

inline constexpr int kQuantGroup = 32;  // columns with one scale
inline constexpr int kQuantTile = 16;   // rows of a unit
// A chunk of columns and of rows, and the units in it.
inline constexpr int kQuantChunkGroups = 2;
inline constexpr int kQuantChunk = kQuantChunkGroups * kQuantGroup;
inline constexpr int kQuantBlockTiles = 4;
inline constexpr int kQuantBlockRows = kQuantBlockTiles * kQuantTile;
inline constexpr int kQuantBlockUnits = kQuantBlockTiles * kQuantChunkGroups;

struct QuantFormat {
  int32_t bits = 4;  // 4 or 8
  bool has_min = false;
};

__host__ __device__ constexpr int QuantCodeBytes(int bits) {
  return kQuantTile * kQuantGroup * bits / 8;
}
// Of a unit; a multiple of 16.
__host__ __device__ constexpr int QuantUnitBytes(int bits, bool has_min) {
  return QuantCodeBytes(bits) + kQuantTile * 2 * (has_min ? 2 : 1);
}

// Number of the unit with rows 16 tile .. 16 tile + 15 of a group of columns; chunks: of a row.
__host__ __device__ constexpr int64_t QuantUnit(int64_t tile, int64_t group, int64_t chunks) {
  const int64_t block = tile / kQuantBlockTiles * chunks + group / kQuantChunkGroups;
  return (block * kQuantBlockTiles + tile % kQuantBlockTiles) * kQuantChunkGroups +
         group % kQuantChunkGroups;
}
__host__ __device__ constexpr int64_t QuantChunks(int64_t cols) {
  return (cols + kQuantChunk - 1) / kQuantChunk;
}
constexpr int64_t QuantUnits(int64_t rows, int64_t cols) {
  return (rows + kQuantBlockRows - 1) / kQuantBlockRows * QuantChunks(cols) * kQuantBlockUnits;
}
// Bytes of rows x cols weights. cols: a multiple of kQuantGroup.
constexpr int64_t QuantBytes(QuantFormat format, int64_t rows, int64_t cols) {
  return QuantUnits(rows, cols) * QuantUnitBytes(format.bits, format.has_min);
}

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_KERNELS_QUANT_LAYOUT_H_
