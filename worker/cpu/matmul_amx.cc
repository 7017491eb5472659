// Compiled for x86-64-v4 with AMX; reached only on CPUs that have it and VNNI. Int8 products of
// many rows on tile registers: the integer sums of matmul_int8.h, exact in any order, folded by the
// same float sequence.
//
// A tile product is [16 rows, 32 inputs] x [32 inputs, 16 outputs] in 16 cycles: 512 products a
// cycle, where VNNI does 128. Tiles hold no floats, so the sums of each block of 32 inputs go
// through the first-level cache to be folded by 4 instructions per row and 16 outputs, 2 a cycle.
// Measured on a Xeon: a tile with its store takes 32 cycles, the fold of 16 rows 36, and the two
// hardly overlap; VNNI takes 125. Switching between them costs, too, so tiles of several blocks are
// stored before any is folded.
#include <immintrin.h>

#include <cstdint>

#include "worker/cpu/matmul_finish.h"
#include "worker/cpu/matmul_int8.h"
#include "worker/cpu/matmul_int8_rows.h"
#include "worker/cpu/matmul_int8_tiles.h"
#include "worker/cpu/matmul_kernels.h"
#include "worker/cpu/simd_bits.h"

static_assert(OCTAVO_SIMD_AVX512, "compile this file with -march=x86-64-v4");

namespace octavo::OCTAVO_SIMD {
namespace {

constexpr int kMostRows = 16;  // of a tile register
// Up to 8 rows VNNI is as fast: it unpacks weights in registers.
constexpr int kLeastRows = 9;
constexpr int kLeastTileRows = 8;  // that kLeastRows or more are cut into

// How rows are cut into tiles: sizes differ by at most one.
struct TileCut {
  explicit TileCut(int64_t rows)
      : rows(rows), tiles((rows + kMostRows - 1) / kMostRows), most((rows + tiles - 1) / tiles) {}
  int64_t Begin(int64_t tile) const { return rows * tile / tiles; }
  int64_t rows;
  int64_t tiles;
  int64_t most;  // rows of the largest
};

// A tile's rows as a thread lays them out for itself: q [k_blocks][most][32], then [k_blocks][16]
// each of s, s * sum(q), and what the integer sums start from so that the bias of the weights
// cancels.
struct ArrangedTile {
  ArrangedTile(float* tiles, int64_t tile, int64_t most, int64_t k_blocks)
      : q(reinterpret_cast<int8_t*>(tiles + tile * Floats(most, k_blocks))),
        scales(reinterpret_cast<float*>(q + k_blocks * most * kBlockK)),
        scaled_sums(scales + k_blocks * kMostRows),
        starts(reinterpret_cast<int32_t*>(scaled_sums + k_blocks * kMostRows)) {}
  static int64_t Floats(int64_t most, int64_t k_blocks) {
    return k_blocks * (most * kBlockK / 4 + 3 * kMostRows);
  }
  int8_t* q;
  float* scales;
  float* scaled_sums;
  int32_t* starts;
};

int64_t ArrangedFloats(int64_t rows, int64_t k_blocks) {
  if (rows < kLeastRows) return 0;
  const TileCut cut(rows);
  return cut.tiles * ArrangedTile::Floats(cut.most, k_blocks);
}

void Arrange(const MultiplyTask& task) {
  if (task.rows < kLeastRows) return;
  const TileCut cut(task.rows);
  const int32_t bias =
      task.even_odd ? ByteWeights<PackFormat::kQ4_0>::kBias : ByteWeights<PackFormat::kQ8_0>::kBias;
  for (int64_t t = 0; t < cut.tiles; ++t) {
    const ArrangedTile tile(task.arranged, t, cut.most, task.k_blocks);
    const int64_t begin = cut.Begin(t);
    for (int64_t r = 0; begin + r < cut.Begin(t + 1); ++r) {
      const QuantRow row(task.tiles + (begin + r) * task.k_blocks * kBlockK, task.k_blocks);
      for (int64_t b = 0; b < task.k_blocks; ++b) {
        __builtin_memcpy(tile.q + (b * cut.most + r) * kBlockK, row.q + b * kBlockK, kBlockK);
        tile.scales[b * kMostRows + r] = row.scales[b];
        tile.scaled_sums[b * kMostRows + r] = row.scaled_sums[b];
        tile.starts[b * kMostRows + r] = -bias * row.sums[b];
      }
    }
  }
}

// Tiles 0, 1: sums [rows][16 outputs] of both halves of a panel; 2: q [rows][32 inputs]; 3, 4:
// weights [32 inputs / 4][16 outputs][4].
struct alignas(64) TileConfig {
  explicit TileConfig(int64_t rows) {
    column_bytes[0] = 64;
    this->rows[0] = static_cast<uint8_t>(rows);
    column_bytes[1] = 64;
    this->rows[1] = static_cast<uint8_t>(rows);
    column_bytes[2] = kBlockK;
    this->rows[2] = static_cast<uint8_t>(rows);
    column_bytes[3] = column_bytes[4] = 64;
    this->rows[3] = this->rows[4] = kBlockK / 4;
  }
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t column_bytes[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);

// K-blocks at a time. Weights and sums of 6 are 20 KiB; of 18 they leave the first-level cache, and
// everything takes 1.8 times as long.
constexpr int64_t kTileBlocks = 6;

// acc [R][32] (0 before block 0) += blocks [first, last) of R rows times `weights`, which start at
// the first: unpacked, or Q8_0 as it is stored.
template <class W, int R>
OCTAVO_KERNEL void AmxTile(const uint8_t* weights, int64_t first, int64_t last, int64_t most,
                           const ArrangedTile& rows, float* out, PrefetchLines next) {
  constexpr int64_t kStride = W::kNibbles ? kUnpackedStride : W::kLayout.block_bytes;
  alignas(64) int32_t sums[kTileBlocks][2][kMostRows * kLanes];
  const uint8_t* block = weights;
  for (int64_t b = first; b < last; ++b, block += kStride) {
    _tile_loadd(2, rows.q + b * most * kBlockK, kBlockK);
    _tile_loadd(3, block, 128);
    _tile_loadd(4, block + 64, 128);
    _tile_zero(0);
    _tile_zero(1);
    _tile_dpbsud(0, 2, 3);
    _tile_dpbsud(1, 2, 4);
    _tile_stored(0, sums[b - first][0], 64);
    _tile_stored(1, sums[b - first][1], 64);
    for (int64_t i = 0; i < next.lines; ++i, next.begin += 64) PrefetchSecondLevel(next.begin);
  }
  for (int h = 0; h < 2; ++h) {
    block = weights;
    Vec acc[R];
    Unroll<R>([&](auto r) OCTAVO_LAMBDA {
      acc[r] = first == 0 ? Zero() : Load(out + r * kPanelRows + h * kLanes);
    });
    for (int64_t b = first; b < last; ++b, block += kStride) {
      const float* scales = reinterpret_cast<const float*>(block + kUnpackedBytes) + h * kLanes;
      Vec m = Zero();
      if constexpr (W::kHasMin) m = Load(scales + kPanelRows);
      const Vec d = W::kNibbles ? Load(scales) : LoadHalf(block + h * 32 + W::kScaleOffset);
      const int32_t* from = sums[b - first][h];
      Unroll<R>([&](auto r) OCTAVO_LAMBDA {
        Bits sum = LoadBits(from + r * kLanes);
        if constexpr (W::kBias != 0)
          sum = AddInt(sum, SetBits(static_cast<uint32_t>(rows.starts[b * kMostRows + r])));
        MulAdd(acc[r], ToFloat(sum), Mul(d, Set1(rows.scales[b * kMostRows + r])));
        if constexpr (W::kHasMin) MulAdd(acc[r], m, Set1(rows.scaled_sums[b * kMostRows + r]));
      });
    }
    Unroll<R>([&](auto r) OCTAVO_LAMBDA { Store(out + r * kPanelRows + h * kLanes, acc[r]); });
  }
}

template <PackFormat kFormat>
void MultiplyTiles(const MultiplyTask& task) {
  using W = ByteWeights<kFormat>;
  const TileCut cut(task.rows);
  const TileConfig config(cut.most);
  _tile_loadconfig(&config);
  const int64_t lines = (W::kLayout.block_bytes / 64 + cut.tiles - 1) / cut.tiles;
  uint8_t* const scratch = reinterpret_cast<uint8_t*>(task.decoded);
  for (int64_t p = task.first_panel; p < task.last_panel; ++p) {
    const uint8_t* panel = task.panels + p * task.panel_bytes;
    for (int64_t first = 0; first < task.k_blocks; first += kTileBlocks) {
      const int64_t last =
          first + kTileBlocks < task.k_blocks ? first + kTileBlocks : task.k_blocks;
      const uint8_t* weights = panel + first * W::kLayout.block_bytes;
      if constexpr (W::kNibbles) {
        Unpack<W>(panel, first, last, scratch);
        weights = scratch;
      }
      // What follows in memory is what is multiplied next: the rest of the panel, or the next one.
      const uint8_t* const next = panel + last * W::kLayout.block_bytes;
      for (int64_t t = 0; t < cut.tiles; ++t) {
        const int64_t row = cut.Begin(t);
        const int64_t count = cut.Begin(t + 1) - row;
        float* const sums = task.sums_out + row * kPanelRows;
        const ArrangedTile rows(task.arranged, t, cut.most, task.k_blocks);
        const PrefetchLines ahead = {next + t * (last - first) * lines * 64, lines};
        DispatchRows<kLeastTileRows, kMostRows>(count, [&](auto r) OCTAVO_LAMBDA {
          AmxTile<W, decltype(r)::value>(weights, first, last, cut.most, rows, sums, ahead);
        });
        if (last == task.k_blocks) Finish(task, p, row, count, sums);
      }
    }
  }
  // In their initial state, tiles cost a switch of threads nothing.
  _tile_release();
}

void MultiplyAmx(const MultiplyTask& task) {
  if (task.rows < kLeastRows) return MatmulKernelsInt8().multiply(task);
  switch (task.format) {
    case PackFormat::kQ4_0:
      return MultiplyTiles<PackFormat::kQ4_0>(task);
    case PackFormat::kQ4_1:
      return MultiplyTiles<PackFormat::kQ4_1>(task);
    case PackFormat::kQ8_0:
      return MultiplyTiles<PackFormat::kQ8_0>(task);
    default:
      __builtin_trap();  // QuantOrderOf says which layers come here
  }
}

}  // namespace
}  // namespace octavo::OCTAVO_SIMD

namespace octavo {

const MatmulKernels& MatmulKernelsAmx() {
  static const MatmulKernels kernels = [] {
    MatmulKernels amx = MatmulKernelsInt8();
    amx.multiply = OCTAVO_SIMD::MultiplyAmx;
    amx.arranged_floats = OCTAVO_SIMD::ArrangedFloats;
    amx.arrange = OCTAVO_SIMD::Arrange;
    return amx;
  }();
  return kernels;
}

}  // namespace octavo
