// int8 products of many rows: some K-blocks of a panel are unpacked once, to bytes that stay in the
// first-level cache, and multiplied by one register tile of rows after the other.
#ifndef OCTAVO_WORKER_CPU_MATMUL_INT8_TILES_H_
#define OCTAVO_WORKER_CPU_MATMUL_INT8_TILES_H_

#include <cstdint>

#include "worker/cpu/matmul_finish.h"
#include "worker/cpu/matmul_int8_rows.h"
#include "worker/cpu/matmul_kernels.h"
#include "worker/cpu/simd_bits.h"

namespace octavo::OCTAVO_SIMD {

inline constexpr int kInt8TileRows = 6;       // 12 sums and 12 accumulators of 32 registers
inline constexpr int64_t kUnpackBlocks = 18;  // K-blocks at a time: 22.5 KiB
inline constexpr int64_t kUnpackedBytes = kBlockK * kPanelRows;  // of a block, before d and m
inline constexpr int64_t kUnpackedStride = kUnpackedBytes + 4 * 64;

// Packed weights to bring near while a tile is computed, [begin, begin + lines * 64) per K-block.
struct PrefetchLines {
  const uint8_t* begin;
  int64_t lines;
};

// Rows of a tile, and their sums so far.
struct Int8Rows {
  const float* records;
  int64_t k_blocks;
  float* acc;  // [rows][32]
  QuantRow operator[](int r) const { return {records + r * k_blocks * kBlockK, k_blocks}; }
};

// Blocks [first, last) of a panel as [8 k/4][2 h] vectors of bytes, then d [2 h] and m [2 h].
template <class W>
OCTAVO_KERNEL void Unpack(const uint8_t* panel, int64_t first, int64_t last, uint8_t* out) {
  for (int64_t b = first; b < last; ++b, out += kUnpackedStride) {
    const uint8_t* block = panel + b * W::kLayout.block_bytes;
    Unroll<4>([&](auto j) OCTAVO_LAMBDA {
      Unroll<2>([&](auto h) OCTAVO_LAMBDA {
        Bits low;
        Bits high;
        W::Load(block, j, h, low, high);
        _mm512_store_si512(out + j * 256 + h * 64, low.v);
        _mm512_store_si512(out + j * 256 + h * 64 + 128, high.v);
      });
    });
    float* scales = reinterpret_cast<float*>(out + kUnpackedBytes);
    Unroll<2>([&](auto h) OCTAVO_LAMBDA {
      Store(scales + h * 16, LoadHalf(block + W::kScaleOffset + h * 32));
      if constexpr (W::kHasMin)
        Store(scales + kPanelRows + h * 16, LoadHalf(block + W::kScaleOffset + 64 + h * 32));
    });
  }
}

// acc [R][32] (0 before block 0) += blocks [first, last) of R prepared rows times `weights`, which
// start at the first. `weights`: unpacked, or Q8_0 as it is stored.
template <class W, int R>
OCTAVO_KERNEL void Int8WideTile(const uint8_t* weights, int64_t first, int64_t last,
                                const Int8Rows& rows, PrefetchLines next) {
  Vec acc[R][2];
  Unroll<R>([&](auto r) OCTAVO_LAMBDA {
    Unroll<2>([&](auto h) OCTAVO_LAMBDA {
      acc[r][h] = first == 0 ? Zero() : Load(rows.acc + r * kPanelRows + h * 16);
    });
  });
  for (int64_t b = first; b < last; ++b) {
    for (int64_t i = 0; i < next.lines; ++i, next.begin += 64) Prefetch(next.begin);
    Bits sums[R][2];
    Unroll<R>([&](auto r)
                  OCTAVO_LAMBDA { sums[r][0] = sums[r][1] = SumStart<W::kBias>(rows[r], b); });
    Unroll<8>([&](auto j) OCTAVO_LAMBDA {
      const Bits w0 = LoadBits(weights + j * 128);
      const Bits w1 = LoadBits(weights + j * 128 + 64);
      Unroll<R>([&](auto r) OCTAVO_LAMBDA {
        const Bits x = FourBytes(rows[r].q + b * kBlockK + j * 4);
        Dot(sums[r][0], w0, x);
        Dot(sums[r][1], w1, x);
      });
    });
    const float* scales = reinterpret_cast<const float*>(weights + kUnpackedBytes);
    Unroll<2>([&](auto h) OCTAVO_LAMBDA {
      Vec m = Zero();
      if constexpr (W::kHasMin) m = Load(scales + kPanelRows + h * 16);
      const Vec d =
          W::kNibbles ? Load(scales + h * 16) : LoadHalf(weights + W::kScaleOffset + h * 32);
      Unroll<R>([&](auto r) OCTAVO_LAMBDA {
        FoldSums<W::kHasMin>(acc[r][h], sums[r][h], d, m, rows[r], b);
      });
    });
    weights += W::kNibbles ? kUnpackedStride : W::kLayout.block_bytes;
  }
  Unroll<R>([&](auto r) OCTAVO_LAMBDA {
    Unroll<2>([&](auto h) OCTAVO_LAMBDA { Store(rows.acc + r * kPanelRows + h * 16, acc[r][h]); });
  });
}

template <class W>
void MultiplyInt8Tiles(const MultiplyTask& task) {
  const int64_t tiles = (task.rows + kInt8TileRows - 1) / kInt8TileRows;
  const int64_t lines = (W::kLayout.block_bytes / 64 + tiles - 1) / tiles;
  uint8_t* const scratch = reinterpret_cast<uint8_t*>(task.decoded);
  for (int64_t p = task.first_panel; p < task.last_panel; ++p) {
    const uint8_t* panel = task.panels + p * task.panel_bytes;
    for (int64_t first = 0; first < task.k_blocks; first += kUnpackBlocks) {
      const int64_t last =
          first + kUnpackBlocks < task.k_blocks ? first + kUnpackBlocks : task.k_blocks;
      const uint8_t* weights = panel + first * W::kLayout.block_bytes;
      if constexpr (W::kNibbles) {
        Unpack<W>(panel, first, last, scratch);
        weights = scratch;
      }
      // What follows in memory is what is multiplied next: the rest of the panel, or the next one.
      const uint8_t* const next = panel + last * W::kLayout.block_bytes;
      for (int64_t t = 0; t < tiles; ++t) {
        const int64_t row = task.rows * t / tiles;
        const int64_t count = task.rows * (t + 1) / tiles - row;
        const Int8Rows rows = {task.tiles + row * task.k_blocks * kBlockK, task.k_blocks,
                               task.sums_out + row * kPanelRows};
        const PrefetchLines ahead = {next + t * (last - first) * lines * 64, lines};
        DispatchRows<1, kInt8TileRows>(count, [&](auto r) OCTAVO_LAMBDA {
          Int8WideTile<W, decltype(r)::value>(weights, first, last, rows, ahead);
        });
        if (last == task.k_blocks) Finish(task, p, row, count, rows.acc);
      }
    }
  }
}

}  // namespace octavo::OCTAVO_SIMD

#endif  // OCTAVO_WORKER_CPU_MATMUL_INT8_TILES_H_
