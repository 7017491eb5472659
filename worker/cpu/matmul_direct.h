// Products of few rows: weights are decoded in registers, and memory bandwidth is the limit. Per
// instruction set.
#ifndef OCTAVO_WORKER_CPU_MATMUL_DIRECT_H_
#define OCTAVO_WORKER_CPU_MATMUL_DIRECT_H_

#include <cstdint>

#include "worker/cpu/matmul_finish.h"
#include "worker/cpu/matmul_fold.h"
#include "worker/cpu/matmul_formats.h"
#include "worker/cpu/matmul_kernels.h"
#include "worker/cpu/matmul_prepare.h"
#include "worker/cpu/simd_bits.h"

namespace octavo::OCTAVO_SIMD {

// Groups in flight at one row: the latency of FMA is 4, and a group is one chain per register.
#if OCTAVO_SIMD_AVX512
inline constexpr int kSingleUnroll = 2;
#else
inline constexpr int kSingleUnroll = 1;
#endif

// Bytes. The hardware alone reaches two thirds of the read bandwidth.
inline constexpr int64_t kPrefetchAhead = 8192;

// acc [R][32] += groups [group, group + U) of one panel times a tile of R rows.
template <class F, int R, int U>
OCTAVO_SIMD_INLINE void DirectGroups(const uint8_t* panel, int64_t group, const float* tile,
                                     const float* x_sums, float* acc) {
  constexpr int kPerBlock = kBlockK / F::kGroup;
  constexpr int kSteps = F::kGroup / 8;
  constexpr int kLines = F::kLayout.block_bytes / kPerBlock / 64;
  const uint8_t* blocks[U];
  Unroll<U>([&](auto u) OCTAVO_LAMBDA {
    blocks[u] = F::Block(panel, (group + u) / kPerBlock);
    const uint8_t* ahead = blocks[u] + (group + u) % kPerBlock * kLines * 64 + kPrefetchAhead;
    for (int line = 0; line < kLines; ++line) Prefetch(ahead + line * 64);
  });
  Vec s[U][R][2];
  Unroll<U>([&](auto u) OCTAVO_LAMBDA {
    Unroll<R>([&](auto r) OCTAVO_LAMBDA { s[u][r][0] = s[u][r][1] = Zero(); });
  });
  const float* x = tile + group * F::kGroup * R;
  for (int step = 0; step < kSteps; ++step, x += 8 * R) {
    typename F::Raw raw[U][2];
    Unroll<U>([&](auto u) OCTAVO_LAMBDA {
      const int j = static_cast<int>((group + u) % kPerBlock) * kSteps + step;
      raw[u][0] = F::Load(blocks[u], j, 0);
      raw[u][1] = F::Load(blocks[u], j, 1);
    });
    Unroll<8>([&](auto i) OCTAVO_LAMBDA {
      Unroll<U>([&](auto u) OCTAVO_LAMBDA {
        const Vec w0 = F::template Value<decltype(i)::value>(raw[u][0]);
        const Vec w1 = F::template Value<decltype(i)::value>(raw[u][1]);
        Unroll<R>([&](auto r) OCTAVO_LAMBDA {
          const Vec xi = Set1(x[(u * F::kGroup + i) * R + r]);
          MulAdd(s[u][r][0], w0, xi);
          MulAdd(s[u][r][1], w1, xi);
        });
      });
    });
  }
  Unroll<U>([&](auto u) OCTAVO_LAMBDA {
    const int64_t block = (group + u) / kPerBlock;
    Unroll<2>([&](auto h) OCTAVO_LAMBDA {
      Vec d = Zero();
      Vec m = Zero();
      F::Scales(F::Header(panel, block), blocks[u], static_cast<int>((group + u) % kPerBlock), h, d,
                m);
      Unroll<R>([&](auto r) OCTAVO_LAMBDA {
        Fold<F::kScale>(acc + r * kPanelRows + h * 16, s[u][r][h], d, m, x_sums + block * R + r);
      });
    });
  });
}

template <class F, int R>
OCTAVO_KERNEL void DirectTile(const uint8_t* panel, int64_t k_blocks, const float* tile,
                              const float* x_sums, float* acc) {
  constexpr int kUnroll = R == 1 ? kSingleUnroll : 1;
  for (int i = 0; i < R * kPanelRows; i += 16) Store(acc + i, Zero());
  const int64_t groups = k_blocks * (kBlockK / F::kGroup);
  int64_t group = 0;
  for (; group + kUnroll <= groups; group += kUnroll)
    DirectGroups<F, R, kUnroll>(panel, group, tile, x_sums, acc);
  for (; group < groups; ++group) DirectGroups<F, R, 1>(panel, group, tile, x_sums, acc);
}

template <class F>
void MultiplyDirect(const MultiplyTask& task) {
  const TileSplit split(task.rows);
  for (int64_t p = task.first_panel; p < task.last_panel; ++p) {
    const uint8_t* panel = task.panels + p * task.panel_bytes;
    for (int64_t t = 0; t < split.count(); ++t) {
      const int64_t row = split.Begin(t);
      const int64_t rows = split.Rows(t);
      const float* tile = task.tiles + row * task.k_blocks * kBlockK;
      const float* x_sums = task.sums + row * task.k_blocks;
      DispatchRows<1, kDirectTileRows>(rows, [&](auto r) OCTAVO_LAMBDA {
        DirectTile<F, decltype(r)::value>(panel, task.k_blocks, tile, x_sums, task.sums_out);
      });
      Finish(task, p, row, rows, task.sums_out);
    }
  }
}

}  // namespace octavo::OCTAVO_SIMD

#endif  // OCTAVO_WORKER_CPU_MATMUL_DIRECT_H_
