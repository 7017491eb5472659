// Compiled for x86-64-v4; reached only on CPUs that have it and VNNI.
#include "worker/cpu/matmul_int8.h"

#include <cstdint>

#include "worker/cpu/matmul_finish.h"
#include "worker/cpu/matmul_int8_rows.h"
#include "worker/cpu/matmul_int8_tiles.h"
#include "worker/cpu/matmul_kernels.h"
#include "worker/cpu/matmul_prepare.h"
#include "worker/cpu/simd_bits.h"

static_assert(OCTAVO_SIMD_AVX512, "compile this file with -march=x86-64-v4");

namespace octavo::OCTAVO_SIMD {
namespace {

constexpr int kMostRows = 8;  // of a register tile

// Whether unpacking weights in registers for each tile anew is as fast as unpacking them once: for
// one full tile, and for two that are nearly full.
constexpr bool Direct(int64_t rows) {
  return rows <= kMostRows || (rows > 12 && rows <= 2 * kMostRows);
}
constexpr int64_t kAhead = 8192;  // bytes of software prefetch

int64_t RowCount(int64_t rows) { return rows; }

void QuantizeBlock(const float* x, bool even_odd, int8_t* q, float* scale, float* scaled_sum,
                   int32_t* sum) {
  const __m512 low = _mm512_loadu_ps(x);
  const __m512 high = _mm512_loadu_ps(x + 16);
  const float most = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps(low), _mm512_abs_ps(high)));
  const bool has_nan = _mm512_cmp_ps_mask(low, high, _CMP_UNORD_Q) != 0;
  const bool finite = !has_nan && most <= 3.402823466e+38f;
  const __m512 inverse = _mm512_set1_ps(finite && most > 0 ? 127.0f / most : 0.0f);
  const __m512i a = _mm512_cvtps_epi32(_mm512_mul_ps(low, inverse));
  const __m512i b = _mm512_cvtps_epi32(_mm512_mul_ps(high, inverse));
  __m128i first = _mm512_cvtepi32_epi8(a);
  __m128i second = _mm512_cvtepi32_epi8(b);
  if (even_odd) {
    const __m128i order = _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
    first = _mm_shuffle_epi8(first, order);
    second = _mm_shuffle_epi8(second, order);
  }
  _mm_storeu_si128(reinterpret_cast<__m128i*>(q), first);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(q + 16), second);
  *sum = finite ? _mm512_reduce_add_epi32(_mm512_add_epi32(a, b)) : 0;
  // A value that is no number makes its row's outputs none, as in f32.
  *scale = finite ? most / 127.0f : __builtin_nanf("");
  *scaled_sum = *scale * static_cast<float>(*sum);
}

void PrepareInt8(const PrepareTask& task) {
  const int64_t padded = task.k_blocks * kBlockK;
  for (int64_t row = task.first_tile; row < task.last_tile; ++row) {
    const int64_t source = task.row_ids == nullptr ? row : task.row_ids[row];
    PrepareRow(task, task.x + source * task.stride, task.staging);
    float* record = task.tiles + row * padded;
    int8_t* q = reinterpret_cast<int8_t*>(record);
    float* scales = record + padded / 4;
    float* scaled_sums = scales + task.k_blocks;
    int32_t* sums = reinterpret_cast<int32_t*>(scaled_sums + task.k_blocks);
    for (int64_t b = 0; b < task.k_blocks; ++b)
      QuantizeBlock(task.staging + b * kBlockK, task.even_odd, q + b * kBlockK, scales + b,
                    scaled_sums + b, sums + b);
  }
}

// out [R][32] = one panel times R prepared rows.
template <class W, int R>
OCTAVO_KERNEL void Int8Tile(const uint8_t* panel, int64_t k_blocks, const float* records,
                            int64_t ahead, float* out) {
  const int64_t record_floats = k_blocks * kBlockK;
  for (int i = 0; i < R * kPanelRows; i += 16) Store(out + i, Zero());
  for (int64_t b = 0; b < k_blocks; ++b) {
    const uint8_t* block = panel + b * W::kLayout.block_bytes;
    for (int line = 0; line < W::kLayout.block_bytes; line += 64) Prefetch(block + line + ahead);
    Bits sums[R][2];
    Unroll<R>([&](auto r) OCTAVO_LAMBDA {
      const QuantRow row(records + r * record_floats, k_blocks);
      sums[r][0] = sums[r][1] = SumStart<W::kBias>(row, b);
    });
    Unroll<4>([&](auto j) OCTAVO_LAMBDA {
      Bits first[2];
      Bits second[2];
      Unroll<2>([&](auto h) OCTAVO_LAMBDA { W::Load(block, j, h, first[h], second[h]); });
      Unroll<R>([&](auto r) OCTAVO_LAMBDA {
        const int8_t* q =
            reinterpret_cast<const int8_t*>(records + r * record_floats) + b * kBlockK + j * 8;
        const Bits x0 = FourBytes(q);
        Dot(sums[r][0], first[0], x0);
        Dot(sums[r][1], first[1], x0);
        const Bits x1 = FourBytes(q + 4);
        Dot(sums[r][0], second[0], x1);
        Dot(sums[r][1], second[1], x1);
      });
    });
    // Accumulators live in memory: GCC would keep them in registers and spill the sums.
    asm volatile("" ::: "memory");
    Unroll<2>([&](auto h) OCTAVO_LAMBDA {
      const Vec d = LoadHalf(block + W::kScaleOffset + h * 32);
      Vec m = Zero();
      if constexpr (W::kHasMin) m = LoadHalf(block + W::kScaleOffset + 64 + h * 32);
      Unroll<R>([&](auto r) OCTAVO_LAMBDA {
        const QuantRow row(records + r * record_floats, k_blocks);
        Vec acc = Load(out + r * kPanelRows + h * 16);
        FoldSums<W::kHasMin>(acc, sums[r][h], d, m, row, b);
        Store(out + r * kPanelRows + h * 16, acc);
      });
    });
  }
}

template <PackFormat kFormat>
void MultiplyRows(const MultiplyTask& task) {
  if (!Direct(task.rows)) return MultiplyInt8Tiles<ByteWeights<kFormat>>(task);
  for (int64_t p = task.first_panel; p < task.last_panel; ++p) {
    const uint8_t* panel = task.panels + p * task.panel_bytes;
    // Tiles of nearly equal size.
    const int64_t tiles = (task.rows + kMostRows - 1) / kMostRows;
    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t row = task.rows * t / tiles;
      const int64_t rows = task.rows * (t + 1) / tiles - row;
      const float* records = task.tiles + row * task.k_blocks * kBlockK;
      DispatchRows<1, kMostRows>(rows, [&](auto r) OCTAVO_LAMBDA {
        // The panel is near after its first tile.
        Int8Tile<ByteWeights<kFormat>, decltype(r)::value>(panel, task.k_blocks, records,
                                                           t == 0 ? kAhead : 0, task.sums_out);
      });
      Finish(task, p, row, rows, task.sums_out);
    }
  }
}

void MultiplyInt8(const MultiplyTask& task) {
  switch (task.format) {
    case PackFormat::kQ4_0:
      return MultiplyRows<PackFormat::kQ4_0>(task);
    case PackFormat::kQ4_1:
      return MultiplyRows<PackFormat::kQ4_1>(task);
    case PackFormat::kQ8_0:
      return MultiplyRows<PackFormat::kQ8_0>(task);
    default:
      __builtin_trap();  // QuantOrderOf says which layers come here
  }
}

constexpr MatmulKernels kInt8Kernels = {
    RowCount,     PrepareInt8, nullptr,   nullptr,
    MultiplyInt8, Gate,        Normalize, kUnpackBlocks* kUnpackedStride / 4};

}  // namespace
}  // namespace octavo::OCTAVO_SIMD

namespace octavo {

const MatmulKernels& MatmulKernelsInt8() { return OCTAVO_SIMD::kInt8Kernels; }

}  // namespace octavo
