// Activations on their way into a product: norm, rounding, block sums, tiles. Per instruction set.
#ifndef OCTAVO_WORKER_CPU_MATMUL_PREPARE_H_
#define OCTAVO_WORKER_CPU_MATMUL_PREPARE_H_

#include <cstdint>

#include "worker/cpu/matmul_kernels.h"
#include "worker/cpu/simd_bits.h"

namespace octavo::OCTAVO_SIMD {

// kTileRows: rows of a register tile over decoded weights. Up to kDirectRows rows, weights are
// decoded in registers instead, once per kDirectTileRows rows.
#if OCTAVO_SIMD_AVX512
inline constexpr int kTileRows = 12;
inline constexpr int kDirectTileRows = 8;
inline constexpr int kDirectRows = 8;
inline constexpr int kMinTileRows = 6;  // that more than kDirectRows rows are cut into
#else
inline constexpr int kTileRows = 6;
inline constexpr int kDirectTileRows = 2;
inline constexpr int kDirectRows = 2;
inline constexpr int kMinTileRows = 3;
#endif

// How a chunk's rows are cut into tiles: sizes differ by at most one.
class TileSplit {
 public:
  explicit TileSplit(int64_t rows) {
    const int64_t most = rows <= kDirectRows ? kDirectTileRows : kTileRows;
    count_ = (rows + most - 1) / most;
    least_ = rows / count_;
    longer_ = rows % count_;
  }
  int64_t count() const { return count_; }
  // The first row of tile `tile`; also for tile == count().
  int64_t Begin(int64_t tile) const { return tile * least_ + (tile < longer_ ? tile : longer_); }
  int64_t Rows(int64_t tile) const { return least_ + (tile < longer_ ? 1 : 0); }

 private:
  int64_t count_ = 0;
  int64_t least_ = 0;
  int64_t longer_ = 0;
};

inline int64_t TileCount(int64_t rows) { return TileSplit(rows).count(); }

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

// The row as the kernels multiply it, zeros behind.
inline void PrepareRow(const PrepareTask& task, const float* x, float* row) {
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

// tile[k][r] of `count` rows side by side, from rows `padded` apart.
inline void Interleave(const float* rows, int64_t count, int64_t padded, int64_t tile_rows,
                       float* tile) {
  if (count < 4) {
    for (int64_t r = 0; r < count; ++r)
      for (int64_t k = 0; k < padded; ++k) tile[k * tile_rows + r] = rows[r * padded + k];
    return;
  }
  for (int64_t k = 0; k < padded; k += 4, rows += 4, tile += 4 * tile_rows) {
    __m128 a = _mm_loadu_ps(rows);
    __m128 b = _mm_loadu_ps(rows + padded);
    __m128 c = _mm_loadu_ps(rows + 2 * padded);
    __m128 d = _mm_loadu_ps(rows + 3 * padded);
    _MM_TRANSPOSE4_PS(a, b, c, d);
    _mm_storeu_ps(tile, a);
    _mm_storeu_ps(tile + tile_rows, b);
    _mm_storeu_ps(tile + 2 * tile_rows, c);
    _mm_storeu_ps(tile + 3 * tile_rows, d);
  }
}

inline void Prepare(const PrepareTask& task) {
  const int64_t padded = task.k_blocks * kBlockK;
  const TileSplit split(task.rows);
  for (int64_t t = task.first_tile; t < task.last_tile; ++t) {
    const int64_t first = split.Begin(t);
    const int64_t tile_rows = split.Rows(t);
    float* tile = task.tiles + first * padded;
    float* sums = task.sums + first * task.k_blocks;
    for (int64_t r = 0; r < tile_rows; r += kInterleavedRows) {
      const int64_t left = tile_rows - r;
      const int64_t count = left < kInterleavedRows ? left : kInterleavedRows;
      for (int64_t i = 0; i < count; ++i) {
        const int64_t row = first + r + i;
        const int64_t source = task.row_ids == nullptr ? row : task.row_ids[row];
        PrepareRow(task, task.x + source * task.stride, task.staging + i * padded);
        for (int64_t b = 0; b < task.k_blocks; ++b) {
          const float* block = task.staging + i * padded + b * kBlockK;
          sums[b * tile_rows + r + i] = ReduceAdd(Add(Load(block), Load(block + 16)));
        }
      }
      Interleave(task.staging, count, padded, tile_rows, tile + r);
    }
  }
}

}  // namespace octavo::OCTAVO_SIMD

#endif  // OCTAVO_WORKER_CPU_MATMUL_PREPARE_H_
