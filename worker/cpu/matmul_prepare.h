// Activations on their way into a product: norm, rounding, block sums, tiles. Per instruction set.
#ifndef OCTAVO_WORKER_CPU_MATMUL_PREPARE_H_
#define OCTAVO_WORKER_CPU_MATMUL_PREPARE_H_

#include <cstdint>

#include "worker/cpu/matmul_kernels.h"
#include "worker/cpu/simd_bits.h"

namespace octavo::OCTAVO_SIMD {

// Rows of one register tile, and the most rows whose weights are decoded in registers, without
// a scratch copy of the panel.
#if OCTAVO_SIMD_AVX512
inline constexpr int kTileRows = 12;
inline constexpr int kDirectRows = 4;
#else
inline constexpr int kTileRows = 6;
inline constexpr int kDirectRows = 2;
#endif

inline int64_t TileCount(int64_t rows) {
  return rows <= kDirectRows ? 1 : (rows + kTileRows - 1) / kTileRows;
}
// The first row of tile `tile`, also for tile == TileCount(rows): sizes differ by at most one.
inline int64_t TileBegin(int64_t rows, int64_t tile) { return rows * tile / TileCount(rows); }

inline float LoadOr0(const float* x, int64_t i, int64_t count) { return i < count ? x[i] : 0.0f; }

// 16 floats, of which the first `count` exist.
inline Vec LoadPartial(const float* p, int64_t count) {
  if (count >= 16) return Load(p);
  alignas(64) float lanes[16];
  for (int64_t i = 0; i < 16; ++i) lanes[i] = LoadOr0(p, i, count);
  return Load(lanes);
}
inline void StorePartial(float* p, int64_t count, Vec v) {
  if (count >= 16) return Store(p, v);
  alignas(64) float lanes[16];
  Store(lanes, v);
  for (int64_t i = 0; i < count; ++i) p[i] = lanes[i];
}

// 1 / sqrt(mean(x^2) + eps): lane l sums the squares of x[l], x[l + 16], ...
inline float InverseRms(const float* x, float eps, int64_t cols) {
  Vec squares = Zero();
  for (int64_t k = 0; k < cols; k += 16) {
    const Vec v = LoadPartial(x + k, cols - k);
    squares = Fma(v, v, squares);
  }
  const float mean = ReduceAdd(squares) / static_cast<float>(cols);
  return 1.0f / _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(mean + eps)));
}

inline void Normalize(const float* x, const float* weight, float eps, int64_t cols, float* out) {
  const Vec scale = Set1(InverseRms(x, eps, cols));
  for (int64_t k = 0; k < cols; k += 16) {
    const int64_t left = cols - k;
    StorePartial(out + k, left,
                 Mul(Mul(LoadPartial(x + k, left), scale), LoadPartial(weight + k, left)));
  }
}

// To nearest, ties to even. A NaN stays one.
OCTAVO_SIMD_INLINE Vec RoundToBf16(Vec x) {
  const Bits bits = AsBits(x);
  const Bits odd = And(ShiftRight<16>(bits), SetBits(1));
  const Bits rounded = AddInt(AddInt(bits, SetBits(0x7FFF)), odd);
  return KeepNan(x, AsVec(And(rounded, SetBits(0xFFFF0000u))));
}

// The row as the kernels multiply it, zeros behind, in task.row.
inline void PrepareRow(const PrepareTask& task, const float* x) {
  float* row = task.row;
  const int64_t padded = task.k_blocks * kBlockK;
  if (task.norm_weight != nullptr) {
    Normalize(x, task.norm_weight, task.eps, task.cols, row);
  } else {
    for (int64_t k = 0; k < task.cols; k += 16)
      StorePartial(row + k, task.cols - k, LoadPartial(x + k, task.cols - k));
  }
  for (int64_t k = task.cols; k < padded; ++k) row[k] = 0.0f;
  if (!task.round_to_bf16) return;
  for (int64_t k = 0; k < padded; k += 16) Store(row + k, RoundToBf16(Load(row + k)));
}

inline void Prepare(const PrepareTask& task) {
  const int64_t padded = task.k_blocks * kBlockK;
  for (int64_t t = task.first_tile; t < task.last_tile; ++t) {
    const int64_t first = TileBegin(task.rows, t);
    const int64_t tile_rows = TileBegin(task.rows, t + 1) - first;
    float* tile = task.tiles + first * padded;
    float* sums = task.sums + first * task.k_blocks;
    for (int64_t r = 0; r < tile_rows; ++r) {
      const int64_t source = task.row_ids == nullptr ? first + r : task.row_ids[first + r];
      PrepareRow(task, task.x + source * task.stride);
      for (int64_t k = 0; k < padded; ++k) tile[k * tile_rows + r] = task.row[k];
      for (int64_t b = 0; b < task.k_blocks; ++b) {
        const float* block = task.row + b * kBlockK;
        sums[b * tile_rows + r] = ReduceAdd(Add(Load(block), Load(block + 16)));
      }
    }
  }
}

}  // namespace octavo::OCTAVO_SIMD

#endif  // OCTAVO_WORKER_CPU_MATMUL_PREPARE_H_
