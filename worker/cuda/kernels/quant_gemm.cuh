// The product of few rows with 4-bit or 8-bit weights. Weights are operand A (16 rows of a unit as
// M), rows of x operand B (8 of them as N), so that one row of x wastes least.
//
// Grid: (pieces of x rows x blocks of weight rows, splits of the columns), pieces first, so that
// the second-level cache serves the weights to all pieces after the first. A block of threads
// computes kTiles units of rows by 8 kBatch rows of x. Its warps have every kWarps-th chunk of two
// groups (64 columns) of its split, each with a ring of chunks in shared memory and no barrier of
// the block in the loop: one __syncwarp a chunk says that the chunk has come and that the slot
// which is filled next has been read. At the end the warps' sums are added in order of the warps,
// and the splits' in order of the splits by the block that arrives last.
//
// Bytes: a chunk of one unit row is 576 (4 bits), 640 (with minima), 1,088 or 1,152 (8 bits), and
// 128 per row of x. In flight, of 4 bits and up to 8 rows: 8 warps x 4 chunks x 2 units x 576 =
// 36 KB of weights a block, one or two blocks on a multiprocessor, which needs 4.8 TB/s x 700 ns /
// 132 = 25 KB. x comes from the second-level cache, rows x 128 bytes for kTiles x 576 of weights:
// 0.9 times the weights at 8 rows and kTiles 2 and at 16 and 4, nothing much at one.
//
// Instructions, of 4 bits: a product (8 weights a lane) takes 11 to widen and kBatch to multiply;
// two of them take 8 kBatch + 2 to clear and scale a group's sums. With loads and copies that is
// counted in docs/benchmarks/cuda_static.md; 4.3 TB/s are 33 weights a cycle on a multiprocessor
// that issues 128, so up to 3.9 a weight memory is the limit.
// Registers: kTiles x kBatch x 4 sums (8, 32, 64), 4 kBatch for a group's, 4 kBatch of x.
#ifndef OCTAVO_WORKER_CUDA_KERNELS_QUANT_GEMM_CUH_
#define OCTAVO_WORKER_CUDA_KERNELS_QUANT_GEMM_CUH_

#include "worker/cuda/kernels/plant.cuh"
#include "worker/cuda/kernels/ptx.cuh"
#include "worker/cuda/kernels/quant_codes.cuh"
#include "worker/cuda/kernels/quant_gemm.h"
#include "worker/cuda/kernels/quant_gemm_shape.h"
#include "worker/cuda/kernels/smem.cuh"
#include "worker/cuda/kernels/warp.cuh"

namespace octavo::cuda {

struct QuantGemmParams {
  QuantGemmArgs args;
  QuantGemmWorkspace workspace;
  int32_t splits = 1;
};

template <int kBits, bool kMin, int kBatch>
struct QuantGemmKernel {
  using Codes = QuantCodes<kBits, kMin>;
  static constexpr QuantGemmShape kShape = QuantGemmShapeOf(kBits, kMin, kBatch);
  static constexpr int kTiles = kShape.tiles;
  static constexpr int kWarps = kShape.warps;
  static constexpr int kStages = kShape.stages;
  static constexpr int kThreads = kWarps * 32;
  static constexpr int kRows = kTiles * kQuantTile;  // of the weight
  static constexpr int kCols = kBatch * 8;           // rows of x
  static constexpr int kTileBytes = kQuantChunkGroups * Codes::kUnitBytes;
  static constexpr int kWeightBytes = kTiles * kTileBytes;  // of a chunk
  static constexpr int kMergeStride = kRows + kQuantMergePadding;

  // What a lane copies of a chunk: the same places of the next one are a constant further.
  struct Source {
    const std::byte* weight;
    const uint16_t* x[kBatch];  // a row that is there
    int row_bytes[kBatch];      // 16; 0: the row is zeros
    int columns;                // of x from there to the end
  };

  static __device__ __forceinline__ Source SourceOf(const QuantGemmArgs& a, int first_tile,
                                                    int first_row, int chunk, int lane) {
    const auto chunks = static_cast<int>(QuantChunks(a.in_features));
    Source source;
    source.weight =
        a.weight +
        QuantUnit(first_tile, int64_t{chunk} * kQuantChunkGroups, chunks) * Codes::kUnitBytes +
        lane * 16;
    const int k = chunk * kQuantChunk + lane % 4 * 8;
    source.columns = a.in_features - k;
#pragma unroll
    for (int n = 0; n < kBatch; ++n) {
      const int row = first_row + 8 * n + lane / 4;
      source.row_bytes[n] = row < a.rows ? 16 : 0;
      source.x[n] = a.x + (row < a.rows ? row : 0) * a.x_stride + k;
    }
    return source;
  }

  // Starts the copies of a chunk into a slot, and goes to the warp's next one.
  static __device__ __forceinline__ void Fetch(Source& source, int lane, std::byte* slot) {
    std::byte* target = slot + lane * 16;
#pragma unroll
    for (int at = 0; at < kWeightBytes; at += 32 * 16)
      if (at + 32 * 16 <= kWeightBytes || at + lane * 16 < kWeightBytes)
        ptx::cp_async16(target + at, source.weight + at);
    source.weight += int64_t{kWarps} * kQuantBlockUnits * Codes::kUnitBytes;
#pragma unroll
    for (int n = 0; n < kBatch; ++n) {
#pragma unroll
      for (int group = 0; group < kQuantChunkGroups; ++group)
        ptx::cp_async16(target + kWeightBytes + (n * kQuantChunkGroups + group) * 512,
                        source.x[n] + group * kQuantGroup,
                        group * kQuantGroup < source.columns ? source.row_bytes[n] : 0);
      source.x[n] += kWarps * kQuantChunk;
    }
    source.columns -= kWarps * kQuantChunk;
  }

  // Sums of rows g and g + 8 of each tile with rows 2t and 2t + 1 of each 8 of x.
  static __device__ __forceinline__ void Compute(const std::byte* slot, int lane,
                                                 float (&sums)[kTiles][kBatch][4]) {
    const uint32_t ones[4] = {0x3f803f80u, 0x3f803f80u, 0x3f803f80u, 0x3f803f80u};
#pragma unroll
    for (int group = 0; group < kQuantChunkGroups; ++group) {
      uint32_t x[kBatch][2][2];
      float of_x[kBatch][4];  // what a minimum is multiplied with
#pragma unroll
      for (int n = 0; n < kBatch; ++n) {
        const uint4 piece = *reinterpret_cast<const uint4*>(
            slot + kWeightBytes + ((n * kQuantChunkGroups + group) * 32 + lane) * 16);
        x[n][0][0] = piece.x, x[n][0][1] = piece.y, x[n][1][0] = piece.z, x[n][1][1] = piece.w;
        if constexpr (kMin) {
          of_x[n][0] = of_x[n][1] = of_x[n][2] = of_x[n][3] = 0.0f;
          ptx::mma_bf16(of_x[n], ones, x[n][0]);
          ptx::mma_bf16(of_x[n], ones, x[n][1]);
        }
      }
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        const std::byte* unit = slot + tile * kTileBytes + group * Codes::kUnitBytes;
        uint32_t words[Codes::kLaneWords];
        Codes::Load(unit, lane, words);
        float part[kBatch][4] = {};
#pragma unroll
        for (int f = 0; f < 2; ++f) {
          uint32_t weights[4];
          Codes::Widen(words, f, weights);
#pragma unroll
          for (int n = 0; n < kBatch; ++n) ptx::mma_bf16(part[n], weights, x[n][f]);
        }
        float scale[2], min[2];
        Codes::LoadScales(unit, lane / 4, scale, min);
#pragma unroll
        for (int n = 0; n < kBatch; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            sums[tile][n][i] = fmaf(part[n][i], scale[i / 2], sums[tile][n][i]);
            if constexpr (kMin) sums[tile][n][i] = fmaf(of_x[n][i], min[i / 2], sums[tile][n][i]);
          }
      }
    }
  }

  // A finished sum.
  static __device__ __forceinline__ void Store(const QuantGemmArgs& a, int row, int feature,
                                               float sum) {
    if (row >= a.rows || feature >= a.out_features) return;
    if (a.bias != nullptr) sum += a.bias[feature];
    float* out = a.out + row * a.out_stride + feature;
    *out = a.add ? *out + sum : sum;
  }

  static __device__ __forceinline__ void Run(const QuantGemmParams& p) {
    const QuantGemmArgs& a = p.args;
    Smem smem;
    std::byte* ring = smem.take<std::byte>(kShape.ring_bytes, 128);
    int* is_last = smem.take<int>(1);
    const int warp = WarpIndex(), lane = static_cast<int>(threadIdx.x) % 32;
    const int pieces = (a.rows + kCols - 1) / kCols;
    const int split = static_cast<int>(blockIdx.y);
    const int first_tile = static_cast<int>(blockIdx.x) / pieces * kTiles;
    const int first_row = static_cast<int>(blockIdx.x) % pieces * kCols;
    const int64_t chunks = QuantChunks(a.in_features);
    const auto bound = [&](int s) { return static_cast<int>(chunks * s / p.splits); };
    const int end_chunk = bound(split + 1);
    int chunk = bound(split) + warp;
    Source source = SourceOf(a, first_tile, first_row, chunk, lane);
    std::byte* own_ring = ring + warp * kStages * kShape.stage_bytes;
    const auto fetch = [&](int number, int stage) {
      if (number < end_chunk) Fetch(source, lane, own_ring + stage * kShape.stage_bytes);
      ptx::cp_commit();
    };

#pragma unroll
    for (int stage = 0; stage < kStages - 1; ++stage) fetch(chunk + stage * kWarps, stage);
    float sums[kTiles][kBatch][4] = {};
    int stage = 0;
    for (; chunk < end_chunk; chunk += kWarps) {
      ptx::cp_wait<kStages - 2>();
      OCTAVO_UNLESS_PLANTED("quant_gemm.ring", __syncwarp());
      fetch(chunk + (kStages - 1) * kWarps, stage == 0 ? kStages - 1 : stage - 1);
      Compute(own_ring + stage * kShape.stage_bytes, lane, sums);
      stage = stage == kStages - 1 ? 0 : stage + 1;
    }
    ptx::cp_wait<0>();
    OCTAVO_UNLESS_PLANTED("quant_gemm.rings_read", __syncthreads());

    // [warp][row of x][row of the weight]
    auto* merged = reinterpret_cast<float*>(ring);
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
      for (int n = 0; n < kBatch; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          merged[(warp * kCols + 8 * n + lane % 4 * 2 + i % 2) * kMergeStride + tile * kQuantTile +
                 i / 2 * 8 + lane / 4] = sums[tile][n][i];
    OCTAVO_UNLESS_PLANTED("quant_gemm.merged", __syncthreads());
    const int first_feature = first_tile * kQuantTile;
    float* partials = nullptr;
    if (p.splits > 1)
      partials = p.workspace.partials + int64_t{blockIdx.x} * p.splits * (kRows * kCols);
    for (int i = static_cast<int>(threadIdx.x); i < kRows * kCols; i += kThreads) {
      const int row = i / kRows, feature = i % kRows;
      float sum = 0.0f;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) sum += merged[(w * kCols + row) * kMergeStride + feature];
      if (p.splits > 1)
        partials[split * (kRows * kCols) + i] = sum;
      else
        Store(a, first_row + row, first_feature + feature, sum);
    }
    if (p.splits == 1) return;

    OCTAVO_UNLESS_PLANTED("quant_gemm.partials_written", __syncthreads());
    if (threadIdx.x == 0) {
      int32_t* arrivals = p.workspace.arrivals + blockIdx.x;
      OCTAVO_UNLESS_PLANTED("quant_gemm.release", __threadfence());
      *is_last = atomicAdd(arrivals, 1) == p.splits - 1;
      OCTAVO_UNLESS_PLANTED("quant_gemm.acquire", __threadfence());
      if (*is_last) *arrivals = 0;
    }
    OCTAVO_UNLESS_PLANTED("quant_gemm.arrived", __syncthreads());
    if (!*is_last) return;
    for (int i = static_cast<int>(threadIdx.x); i < kRows * kCols; i += kThreads) {
      float sum = 0.0f;
      for (int s = 0; s < p.splits; ++s) sum += partials[s * (kRows * kCols) + i];
      Store(a, first_row + i / kRows, first_feature + i % kRows, sum);
    }
  }
};

template <int kBits, bool kMin, int kBatch>
__global__ void __launch_bounds__(QuantGemmKernel<kBits, kMin, kBatch>::kThreads, 2)
    QuantGemm(const __grid_constant__ QuantGemmParams p) {
  QuantGemmKernel<kBits, kMin, kBatch>::Run(p);
}

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_KERNELS_QUANT_GEMM_CUH_
