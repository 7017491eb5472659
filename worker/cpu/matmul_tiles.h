// Products of many rows: a few K-blocks of a panel are decoded once into a scratch that stays in
// the first-level cache and multiplied by one register tile of rows after the other. FMA throughput
// is the limit. Per instruction set.
#ifndef OCTAVO_WORKER_CPU_MATMUL_TILES_H_
#define OCTAVO_WORKER_CPU_MATMUL_TILES_H_

#include <cstdint>

#include "worker/cpu/matmul_finish.h"
#include "worker/cpu/matmul_fold.h"
#include "worker/cpu/matmul_formats.h"
#include "worker/cpu/matmul_kernels.h"
#include "worker/cpu/matmul_prepare.h"
#include "worker/cpu/simd_bits.h"

namespace octavo::OCTAVO_SIMD {

// Halves of a panel in one register tile.
#if OCTAVO_SIMD_AVX512
inline constexpr int kTileHalves = 2;
#else
inline constexpr int kTileHalves = 1;
#endif

inline constexpr int64_t kDecodeBlocks = 3;  // K-blocks decoded at a time: 13 KiB
inline constexpr int64_t kBlockFloats = kBlockK * kPanelRows;
// Decoded block: [32 k][2 h] vectors, then per group d [2 h] and m [2 h].
inline constexpr int64_t kScaleFloats = 4 * kPanelRows;

template <class F>
constexpr int64_t DecodedFloats() {
  return kBlockFloats + (F::kScale == Scale::kNone ? 0 : kBlockK / F::kGroup * 2 * kPanelRows);
}

// Blocks [first, last) of a panel as floats.
template <class F>
OCTAVO_KERNEL void Decode(const uint8_t* panel, int64_t first, int64_t last, float* out) {
  for (int64_t b = first; b < last; ++b, out += DecodedFloats<F>()) {
    const uint8_t* block = F::Block(panel, b);
    for (int j = 0; j < 4; ++j) {
      Unroll<2>([&](auto h) OCTAVO_LAMBDA {
        const typename F::Raw raw = F::Load(block, j, h);
        Unroll<8>([&](auto i) OCTAVO_LAMBDA {
          Store(out + (8 * j + i) * kPanelRows + h * 16,
                F::template Value<decltype(i)::value>(raw));
        });
      });
    }
    if constexpr (F::kScale == Scale::kNone) continue;
    for (int g = 0; g < kBlockK / F::kGroup; ++g) {
      Unroll<2>([&](auto h) OCTAVO_LAMBDA {
        Vec d = Zero();
        Vec m = Zero();
        F::Scales(F::Header(panel, b), block, g, h, d, m);
        float* scales = out + kBlockFloats + g * 2 * kPanelRows + h * 16;
        Store(scales, d);
        Store(scales + kPanelRows, m);
      });
    }
  }
}

// Packed weights to bring near while a tile is computed.
struct PrefetchRange {
  const uint8_t* begin;
  int64_t bytes_per_block;  // while one K-block is multiplied
};

// acc [R][32] += decoded blocks times one tile of R rows.
template <int R, int kGroup, Scale kScale>
OCTAVO_KERNEL void MultiplyTile(const float* decoded, int64_t blocks, const float* tile,
                                const float* sums, float* acc, PrefetchRange next) {
  constexpr int kPerBlock = kBlockK / kGroup;
  constexpr int64_t kStride =
      kBlockFloats + (kScale == Scale::kNone ? 0 : kPerBlock * 2 * kPanelRows);
  constexpr int H = kTileHalves;
  for (int half = 0; half < 2; half += H) {
    const float* x = tile;
    const float* block = decoded + half * 16;
    for (int64_t b = 0; b < blocks; ++b, block += kStride) {
      if (half == 0) {
        const uint8_t* end = next.begin + next.bytes_per_block;
        for (; next.begin < end; next.begin += 64) Prefetch(next.begin);
      }
      for (int g = 0; g < kPerBlock; ++g) {
        Vec s[R][H];
        Unroll<R>([&](auto r) OCTAVO_LAMBDA {
          Unroll<H>([&](auto h) OCTAVO_LAMBDA { s[r][h] = Zero(); });
        });
        const float* w = block + g * kGroup * kPanelRows;
        for (int k = 0; k < kGroup; k += 2, w += 2 * kPanelRows, x += 2 * R) {
          Unroll<2>([&](auto i) OCTAVO_LAMBDA {
            Vec wi[H];
            Unroll<H>([&](auto h) OCTAVO_LAMBDA { wi[h] = Load(w + i * kPanelRows + h * 16); });
            Unroll<R>([&](auto r) OCTAVO_LAMBDA {
              const Vec xi = Set1(x[i * R + r]);
              Unroll<H>([&](auto h) OCTAVO_LAMBDA { MulAdd(s[r][h], wi[h], xi); });
            });
          });
        }
        // Accumulators live in memory: GCC would keep them in registers and spill the sums.
        asm volatile("" ::: "memory");
        const float* scales = block + kBlockFloats + g * 2 * kPanelRows;
        Unroll<H>([&](auto h) OCTAVO_LAMBDA {
          Vec d = Zero();
          Vec m = Zero();
          if constexpr (kScale != Scale::kNone) d = Load(scales + h * 16);
          if constexpr (kScale == Scale::kScaleMin) m = Load(scales + kPanelRows + h * 16);
          Unroll<R>([&](auto r) OCTAVO_LAMBDA {
            Fold<kScale>(acc + r * kPanelRows + half * 16 + h * 16, s[r][h], d, m,
                         sums + b * R + r);
          });
        });
      }
    }
  }
}

template <class F>
void MultiplyTiles(const MultiplyTask& task) {
  const TileSplit split(task.rows);
  const int64_t prefetch_bytes =
      (F::kLayout.block_bytes / 64 + split.count() - 1) / split.count() * 64;
  for (int64_t p = task.first_panel; p < task.last_panel; ++p) {
    const uint8_t* panel = task.panels + p * task.panel_bytes;
    const Vec zero = Zero();
    for (int64_t i = 0; i < task.rows * kPanelRows; i += 16) Store(task.sums_out + i, zero);
    for (int64_t first = 0; first < task.k_blocks; first += kDecodeBlocks) {
      const int64_t last =
          first + kDecodeBlocks < task.k_blocks ? first + kDecodeBlocks : task.k_blocks;
      const float* decoded = task.decoded;
      if constexpr (F::kFormat == PackFormat::kF32) {
        decoded = reinterpret_cast<const float*>(F::Block(panel, first));
      } else {
        Decode<F>(panel, first, last, task.decoded);
      }
      // What follows in memory is what is decoded next: the rest of the panel, or the next panel.
      const uint8_t* next = F::Block(panel, last);
      for (int64_t t = 0; t < split.count(); ++t) {
        const int64_t row = split.Begin(t);
        const int64_t rows = split.Rows(t);
        const float* tile = task.tiles + row * task.k_blocks * kBlockK + first * kBlockK * rows;
        const float* sums = task.sums + row * task.k_blocks + first * rows;
        float* acc = task.sums_out + row * kPanelRows;
        const PrefetchRange range = {next + t * (last - first) * prefetch_bytes, prefetch_bytes};
        DispatchRows<kMinTileRows, kTileRows>(rows, [&](auto r) OCTAVO_LAMBDA {
          MultiplyTile<decltype(r)::value, F::kGroup, F::kScale>(decoded, last - first, tile, sums,
                                                                 acc, range);
        });
      }
    }
    Finish(task, p, 0, task.rows, task.sums_out);
  }
}

}  // namespace octavo::OCTAVO_SIMD

#endif  // OCTAVO_WORKER_CPU_MATMUL_TILES_H_
