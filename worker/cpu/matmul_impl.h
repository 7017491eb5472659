// The products themselves. Per instruction set: included by matmul_avx2.cc and matmul_avx512.cc.
//
// Up to kDirectRows rows, weights are decoded in registers and memory bandwidth is the limit.
// Above, a piece of a panel is decoded once into a cache-resident scratch and multiplied by one
// register tile of rows after the other, and FMA throughput is the limit. Both run the float
// sequence that matmul.h promises.
#ifndef OCTAVO_WORKER_CPU_MATMUL_IMPL_H_
#define OCTAVO_WORKER_CPU_MATMUL_IMPL_H_

#include <cstdint>

#include "worker/cpu/matmul_finish.h"
#include "worker/cpu/matmul_formats.h"
#include "worker/cpu/matmul_kernels.h"
#include "worker/cpu/matmul_prepare.h"
#include "worker/cpu/simd_bits.h"

namespace octavo::OCTAVO_SIMD {

#if OCTAVO_SIMD_AVX512
inline constexpr int kTileHalves = 2;    // halves of a panel in one register tile
inline constexpr int kSingleUnroll = 2;  // groups in flight at one row: FMA latency is 4
#else
inline constexpr int kTileHalves = 1;
inline constexpr int kSingleUnroll = 1;
#endif

inline constexpr int64_t kPrefetchAhead =
    8192;                                    // bytes; the hardware alone reaches 2/3 of the rate
inline constexpr int64_t kDecodeBlocks = 8;  // K-blocks decoded at a time
inline constexpr int64_t kBlockFloats = kBlockK * kPanelRows;
// Decoded block: [32 k][2 h] vectors, then per group d [2 h] and m [2 h].
inline constexpr int64_t kScaleFloats = 4 * kPanelRows;

// acc = acc + s, fma(d, s, acc), and fma(m, x_sum, ..) on top.
template <Scale kScale>
OCTAVO_SIMD_INLINE Vec Fold(Vec acc, Vec s, Vec d, Vec m, const float* x_sum) {
  if constexpr (kScale == Scale::kNone) return Add(acc, s);
  acc = Fma(d, s, acc);
  if constexpr (kScale == Scale::kScaleMin) acc = Fma(m, Set1(*x_sum), acc);
  return acc;
}

// Groups [group, group + U) of one panel times R rows, added to acc.
template <class F, int R, int U>
OCTAVO_SIMD_INLINE void DirectGroups(const uint8_t* panel, int64_t group, const float* tile,
                                     const float* sums, Vec (&acc)[R][2]) {
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
      Unroll<2>([&](auto h) OCTAVO_LAMBDA { raw[u][h] = F::Load(blocks[u], j, h); });
    });
    Unroll<8>([&](auto i) OCTAVO_LAMBDA {
      Unroll<U>([&](auto u) OCTAVO_LAMBDA {
        Unroll<2>([&](auto h) OCTAVO_LAMBDA {
          const Vec w = F::template Value<decltype(i)::value>(raw[u][h]);
          Unroll<R>([&](auto r) OCTAVO_LAMBDA {
            s[u][r][h] = Fma(w, Set1(x[(u * F::kGroup + i) * R + r]), s[u][r][h]);
          });
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
        acc[r][h] = Fold<F::kScale>(acc[r][h], s[u][r][h], d, m, sums + block * R + r);
      });
    });
  });
}

template <class F, int R>
void MultiplyDirect(const MultiplyTask& task) {
  constexpr int kUnroll = R == 1 ? kSingleUnroll : 1;
  const int64_t groups = task.k_blocks * (kBlockK / F::kGroup);
  for (int64_t p = task.first_panel; p < task.last_panel; ++p) {
    const uint8_t* panel = task.panels + p * task.panel_bytes;
    Vec acc[R][2];
    Unroll<R>([&](auto r) OCTAVO_LAMBDA { acc[r][0] = acc[r][1] = Zero(); });
    int64_t group = 0;
    for (; group + kUnroll <= groups; group += kUnroll)
      DirectGroups<F, R, kUnroll>(panel, group, task.tiles, task.sums, acc);
    for (; group < groups; ++group) DirectGroups<F, R, 1>(panel, group, task.tiles, task.sums, acc);
    Unroll<R>([&](auto r) OCTAVO_LAMBDA {
      Store(task.sums_out + r * kPanelRows, acc[r][0]);
      Store(task.sums_out + r * kPanelRows + 16, acc[r][1]);
    });
    Finish(task, p, 0, R, task.sums_out);
  }
}

template <class F>
constexpr int64_t DecodedFloats() {
  return kBlockFloats + (F::kScale == Scale::kNone ? 0 : kBlockK / F::kGroup * 2 * kPanelRows);
}

// Blocks [first, last) of a panel as floats.
template <class F>
void Decode(const uint8_t* panel, int64_t first, int64_t last, float* out) {
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

// Memory to bring near while a tile is computed.
struct PrefetchRange {
  const uint8_t* begin;
  int64_t bytes;
};

// acc [R][32] += decoded blocks times one tile of R rows.
template <int R, int kGroup, Scale kScale>
void MultiplyTile(const float* decoded, int64_t blocks, const float* tile, const float* sums,
                  float* acc, PrefetchRange next) {
  constexpr int kPerBlock = kBlockK / kGroup;
  constexpr int64_t kStride =
      kBlockFloats + (kScale == Scale::kNone ? 0 : kPerBlock * 2 * kPanelRows);
  constexpr int H = kTileHalves;
  for (int half = 0; half < 2; half += H) {
    const float* x = tile;
    const float* block = decoded + half * 16;
    for (int64_t b = 0; b < blocks; ++b, block += kStride) {
      if (half == 0) {
        const int64_t end = next.bytes * (b + 1) / blocks;
        for (int64_t at = next.bytes * b / blocks; at < end; at += 64) Prefetch(next.begin + at);
      }
      for (int g = 0; g < kPerBlock; ++g) {
        Vec s[R][H];
        Unroll<R>([&](auto r) OCTAVO_LAMBDA {
          Unroll<H>([&](auto h) OCTAVO_LAMBDA { s[r][h] = Zero(); });
        });
        const float* w = block + g * kGroup * kPanelRows;
        for (int k = 0; k < kGroup; k += 4, w += 4 * kPanelRows, x += 4 * R) {
          Unroll<4>([&](auto i) OCTAVO_LAMBDA {
            Vec wi[H];
            Unroll<H>([&](auto h) OCTAVO_LAMBDA { wi[h] = Load(w + i * kPanelRows + h * 16); });
            Unroll<R>([&](auto r) OCTAVO_LAMBDA {
              const Vec xi = Set1(x[i * R + r]);
              Unroll<H>([&](auto h) OCTAVO_LAMBDA { s[r][h] = Fma(wi[h], xi, s[r][h]); });
            });
          });
        }
        const float* scales = block + kBlockFloats + g * 2 * kPanelRows;
        Unroll<H>([&](auto h) OCTAVO_LAMBDA {
          Vec d = Zero();
          Vec m = Zero();
          if constexpr (kScale != Scale::kNone) d = Load(scales + h * 16);
          if constexpr (kScale == Scale::kScaleMin) m = Load(scales + kPanelRows + h * 16);
          Unroll<R>([&](auto r) OCTAVO_LAMBDA {
            float* a = acc + r * kPanelRows + half * 16 + h * 16;
            Store(a, Fold<kScale>(Load(a), s[r][h], d, m, sums + b * R + r));
          });
        });
      }
    }
  }
}

template <class F>
void MultiplyTiles(const MultiplyTask& task) {
  const int64_t tiles = TileCount(task.rows);
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
      const int64_t next_bytes = (last - first) * F::kLayout.block_bytes;
      for (int64_t t = 0; t < tiles; ++t) {
        const int64_t row = TileBegin(task.rows, t);
        const int64_t rows = TileBegin(task.rows, t + 1) - row;
        const float* tile = task.tiles + row * task.k_blocks * kBlockK + first * kBlockK * rows;
        const float* sums = task.sums + row * task.k_blocks + first * rows;
        float* acc = task.sums_out + row * kPanelRows;
        const int64_t begin = next_bytes * t / tiles;
        const PrefetchRange range = {next + begin, next_bytes * (t + 1) / tiles - begin};
        DispatchRows<kDirectRows + 1, kTileRows>(rows, [&](auto r) OCTAVO_LAMBDA {
          MultiplyTile<decltype(r)::value, F::kGroup, F::kScale>(decoded, last - first, tile, sums,
                                                                 acc, range);
        });
      }
    }
    Finish(task, p, 0, task.rows, task.sums_out);
  }
}

inline void Multiply(const MultiplyTask& task) {
  DispatchFormat(task.format, [&](auto format) OCTAVO_LAMBDA {
    using F = decltype(format);
    if (task.rows > kDirectRows) return MultiplyTiles<F>(task);
    DispatchRows<1, kDirectRows>(task.rows, [&](auto rows) OCTAVO_LAMBDA {
      MultiplyDirect<F, decltype(rows)::value>(task);
    });
  });
}

inline constexpr MatmulKernels kKernels = {
    TileCount, Prepare, Multiply, Gate, Normalize, kDecodeBlocks*(kBlockFloats + kScaleFloats),
};

}  // namespace octavo::OCTAVO_SIMD

#endif  // OCTAVO_WORKER_CPU_MATMUL_IMPL_H_
