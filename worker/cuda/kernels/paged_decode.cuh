// The decode kernel. Grid: (parts, KV heads, tiles of query heads); block: kWarps warps.
//
// A block of threads computes the items of its part, one after the other. Within an item warp w has
// every kWarps-th tile of 16 tokens from the w-th on and its own ring of tiles in shared memory, so
// that the loop has no barrier of the block. With the tokens as M of mma.m16n8k16 and the query
// heads of a KV head as N, a tile is S = K Q^T (d / 16 products), softmax over M, and
// O^T += V^T P^T (d / 16 products), for which an 8 x 8 transpose turns S into P^T: GQA costs
// nothing up to 8 query heads, and 16 share what is read where kHeadTiles is 2.
//
// Bytes moved: each tile of K and V once, everything else is small. In flight, of head_dim 128 in
// bf16: a tile is 8 KB, a ring has 2, so a block of 4 warps has 32 KB requested while it computes
// 32 KB; three blocks (64 KB of shared memory each) make 96 KB on a multiprocessor, where 4.8 TB/s
// x 700 ns / 132 = 25 KB are needed. A tile costs a warp some 150 instructions, and at 4.3 TB/s the
// four schedulers of a multiprocessor have 1,700 cycles for one.
//
// Registers: O d / 4 and Q d / 8 for each 8 query heads, 4 of S, 8 fragments, addresses.
#ifndef OCTAVO_WORKER_CUDA_KERNELS_PAGED_DECODE_CUH_
#define OCTAVO_WORKER_CUDA_KERNELS_PAGED_DECODE_CUH_

#include "worker/cuda/kernels/element.cuh"
#include "worker/cuda/kernels/online_softmax.cuh"
#include "worker/cuda/kernels/paged_decode.h"
#include "worker/cuda/kernels/paged_decode_shape.h"
#include "worker/cuda/kernels/paged_kv.cuh"
#include "worker/cuda/kernels/plant.cuh"
#include "worker/cuda/kernels/ptx.cuh"
#include "worker/cuda/kernels/smem.cuh"

namespace octavo::cuda {

struct PagedDecodeParams {
  PagedDecodeArgs args;
  ScoreScale score;
};

template <DType kType, int kDim, int kHeadTiles>
struct DecodeKernel {
  using Type = Element<kType>;
  using Tile = KvTile<kType, kDim>;
  static constexpr DecodeShape kShape =
      DecodeShapeOf(kDim, Type::kBytes, Type::kScaled, kHeadTiles);
  static constexpr int kWarps = kShape.warps;
  static constexpr int kStages = kShape.stages;
  static constexpr int kSteps = kDim / 16;
  static constexpr int kHeads = 8 * kHeadTiles;
  static constexpr int kThreads = kWarps * 32;
  static constexpr int kMergeStride = kDim + kDecodeMergePadding;  // floats

  // What a warp knows of its tiles. Lane = 4 g + t; fragments of S hold, for each 8 heads, tokens g
  // and g + 8 of heads 2t and 2t + 1.
  struct Warp {
    uint32_t q[kHeadTiles][kSteps][2];
    float o[kHeadTiles][kSteps][4];
    float maximum[kHeadTiles][2];
    float sum[kHeadTiles][2];  // of this lane's tokens
  };

  // B operand: column g is query head g. q: of the KV head's first query head of this block.
  static __device__ __forceinline__ void Begin(const float* q, int heads, int lane, Warp& warp) {
#pragma unroll
    for (int n = 0; n < kHeadTiles; ++n) {
      const int head = 8 * n + (lane >> 2);
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float2 pair = make_float2(0.0f, 0.0f);
          if (head < heads)
            pair = *reinterpret_cast<const float2*>(q + head * kDim + step * 16 +
                                                    Type::QueryElement(i, lane & 3));
          warp.q[n][step][i] = Type::Pack(pair.x, pair.y);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) warp.o[n][step][i] = 0.0f;
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        warp.maximum[n][i] = -INFINITY;
        warp.sum[n][i] = 0.0f;
      }
    }
  }

  static __device__ __forceinline__ void Scores(const std::byte* tile, const Warp& warp, int lane,
                                                float (&s)[kHeadTiles][4]) {
#pragma unroll
    for (int n = 0; n < kHeadTiles; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) s[n][i] = 0.0f;
#pragma unroll
    for (int piece = 0; piece < Tile::kPieces; ++piece) {
      uint32_t raw[4];
      LoadPiece<Tile::kChunks, false>(raw, tile, 2 * piece, lane);
#pragma unroll
      for (int half = 0; half < Type::kStepsPerPiece; ++half) {
        const int step = piece * Type::kStepsPerPiece + half;
        if (step >= kSteps) continue;
        uint32_t keys[4];
        Type::KeysA(raw, half, keys);
#pragma unroll
        for (int n = 0; n < kHeadTiles; ++n) Type::Mma(s[n], keys, warp.q[n][step]);
      }
    }
  }

  // Turns scores of tokens at `position` + g and + g + 8 into weights as B operand of O^T; rescales
  // what was summed before.
  static __device__ __forceinline__ void Weights(const ScoreScale& score, const std::byte* tile,
                                                 int position, SeenPositions seen, int lane,
                                                 float (&s)[kHeadTiles][4], Warp& warp,
                                                 uint32_t (&p)[kHeadTiles][2]) {
    float value_scale[2] = {1.0f, 1.0f};
    bool is_seen[2];
    float key_scale[2] = {1.0f, 1.0f};
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const int token = (lane >> 2) + 8 * row;
      is_seen[row] = position + token >= seen.first && position + token < seen.end;
      if constexpr (Type::kScaled) {
        key_scale[row] = TileScale<kType, kDim>(tile, kKeys, token);
        value_scale[row] = TileScale<kType, kDim>(tile, kValues, token);
      }
    }
#pragma unroll
    for (int n = 0; n < kHeadTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float qk = s[n][i];
        if constexpr (Type::kScaled) qk *= key_scale[i >> 1];
        s[n][i] = is_seen[i >> 1] ? score(qk) : -INFINITY;
      }
#pragma unroll
      for (int head = 0; head < 2; ++head) {
        float maximum = fmaxf(s[n][head], s[n][head + 2]);
#pragma unroll
        for (int lanes = 4; lanes < 32; lanes <<= 1)
          maximum = fmaxf(maximum, __shfl_xor_sync(~0u, maximum, lanes));
        maximum = fmaxf(maximum, warp.maximum[n][head]);
        const float reference = SoftmaxReference(maximum);
        const float earlier = SoftmaxWeight(warp.maximum[n][head], reference);
        warp.maximum[n][head] = maximum;
        const float low = SoftmaxWeight(s[n][head], reference);
        const float high = SoftmaxWeight(s[n][head + 2], reference);
        warp.sum[n][head] = warp.sum[n][head] * earlier + low + high;
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
          warp.o[n][step][head] *= earlier;
          warp.o[n][step][head + 2] *= earlier;
        }
        s[n][head] = low;
        s[n][head + 2] = high;
        if constexpr (Type::kScaled) {
          s[n][head] = ScaledProbability(low, value_scale[0], Type::kProbabilityFactor);
          s[n][head + 2] = ScaledProbability(high, value_scale[1], Type::kProbabilityFactor);
        }
      }
      p[n][0] = ptx::movmatrix(Type::Pack(s[n][0], s[n][1]));
      p[n][1] = ptx::movmatrix(Type::Pack(s[n][2], s[n][3]));
    }
  }

  static __device__ __forceinline__ void AddValues(const std::byte* tile,
                                                   const uint32_t (&p)[kHeadTiles][2], int lane,
                                                   Warp& warp) {
    const std::byte* values = tile + Tile::kRowsBytes;
#pragma unroll
    for (int piece = 0; piece < Tile::kPieces; ++piece) {
      uint32_t raw[4];
      LoadPiece<Tile::kChunks, true>(raw, values, 2 * piece, lane);
#pragma unroll
      for (int half = 0; half < Type::kStepsPerPiece; ++half) {
        const int step = piece * Type::kStepsPerPiece + half;
        if (step >= kSteps) continue;
        uint32_t fragment[4];
        Type::ValuesA(raw, half, fragment);
#pragma unroll
        for (int n = 0; n < kHeadTiles; ++n) Type::Mma(warp.o[n][step], fragment, p[n]);
      }
    }
  }

  // This warp's tiles of the item. Blocks of the table are looked up one tile before they are
  // needed, so that their latency hides behind a tile's.
  static __device__ __forceinline__ void Run(const PagedDecodeParams& params,
                                             const DecodeItem& item, SeenPositions seen,
                                             std::byte* ring, int warp_index, int lane,
                                             Warp& warp) {
    const PagedKv& kv = params.args.kv;
    const int32_t* table = params.args.block_tables + item.table_begin;
    const int block_shift = __ffs(kv.block_size) - 1;
    const auto find = [&](int tile) {
      TileBlocks blocks;
      if (tile >= item.end_tile) return blocks;
      const int position = tile * kTileTokens;
      blocks.low = table[position >> block_shift];
      // Blocks of 8 tokens: a tile that ends in its first half may be the table's end.
      blocks.high = position + kHalfTokens < seen.end
                        ? table[(position + kHalfTokens) >> block_shift]
                        : blocks.low;
      return blocks;
    };
    const auto copy = [&](int tile, TileBlocks blocks, int stage) {
      if (tile < item.end_tile)
        CopyTile<kType, kDim>(kv, static_cast<int>(blockIdx.y), blocks, tile * kTileTokens, seen,
                              lane, 32, ring + stage * Tile::kBytes);
      ptx::cp_commit();
    };
    int next = item.begin_tile + warp_index;  // to copy
    TileBlocks blocks = find(next);
#pragma unroll
    for (int stage = 0; stage < kStages - 1; ++stage) {
      const TileBlocks following = find(next + kWarps);
      copy(next, blocks, stage);
      blocks = following;
      next += kWarps;
    }
    int stage = 0;
    int free_stage = kStages - 1;
    for (int tile = item.begin_tile + warp_index; tile < item.end_tile; tile += kWarps) {
      const TileBlocks following = find(next + kWarps);
      copy(next, blocks, free_stage);
      blocks = following;
      next += kWarps;
      OCTAVO_UNLESS_PLANTED("paged_decode.wait", ptx::cp_wait<kStages - 1>());
      OCTAVO_UNLESS_PLANTED("paged_decode.tile_arrived", __syncwarp());
      const std::byte* arrived = ring + stage * Tile::kBytes;
      float s[kHeadTiles][4];
      uint32_t p[kHeadTiles][2];
      Scores(arrived, warp, lane, s);
      Weights(params.score, arrived, tile * kTileTokens, seen, lane, s, warp, p);
      AddValues(arrived, p, lane, warp);
      // The slot is copied into from here on.
      OCTAVO_UNLESS_PLANTED("paged_decode.slot_free", __syncwarp());
      free_stage = stage;
      stage = stage + 1 == kStages ? 0 : stage + 1;
    }
    ptx::cp_wait<0>();
  }

  // merged: [kWarps][kHeads][kMergeStride], softmax: [kWarps][kHeads][2].
  static __device__ __forceinline__ void Leave(const Warp& warp, int warp_index, int lane,
                                               float* merged, float* softmax) {
#pragma unroll
    for (int n = 0; n < kHeadTiles; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int head = warp_index * kHeads + 8 * n + 2 * (lane & 3) + i;
        float sum = warp.sum[n][i];
#pragma unroll
        for (int lanes = 4; lanes < 32; lanes <<= 1) sum += __shfl_xor_sync(~0u, sum, lanes);
        if (lane < 4) {
          softmax[2 * head] = warp.maximum[n][i];
          softmax[2 * head + 1] = sum;
        }
#pragma unroll
        for (int step = 0; step < kSteps; ++step)
#pragma unroll
          for (int row = 0; row < 2; ++row)
            merged[head * kMergeStride + step * 16 + Type::OutputElement((lane >> 2) + 8 * row)] =
                warp.o[n][step][i + 2 * row];
      }
  }

  // Joins `count` results of one head. at(i): its place; results are joined in order of i.
  template <class Load>
  static __device__ __forceinline__ float Join(int count, const float* softmax, int softmax_stride,
                                               const float* weighted, int64_t weighted_stride,
                                               const Load& load, float* maximum, float* sum) {
    float most = -INFINITY;
    for (int i = 0; i < count; ++i) most = fmaxf(most, load(softmax + i * softmax_stride));
    const float reference = SoftmaxReference(most);
    float total = 0.0f, value = 0.0f;
    for (int i = 0; i < count; ++i) {
      const float weight = SoftmaxWeight(load(softmax + i * softmax_stride), reference);
      total += weight * load(softmax + i * softmax_stride + 1);
      value += weight * load(weighted + i * weighted_stride);
    }
    *maximum = most;
    *sum = total;
    return value;
  }

  // The item's result from its warps': the row's, or a partial one.
  static __device__ __forceinline__ void MergeWarps(const PagedDecodeArgs& args,
                                                    const DecodeItem& item, int first_head,
                                                    int heads, const float* merged,
                                                    const float* softmax) {
    const auto load = [](const float* place) { return *place; };
    for (int e = threadIdx.x; e < heads * kDim; e += kThreads) {
      const int head = e / kDim, d = e % kDim;
      float maximum, sum;
      const float value =
          Join(kWarps, softmax + 2 * head, 2 * kHeads, merged + head * kMergeStride + d,
               kHeads * kMergeStride, load, &maximum, &sum);
      if (item.num_splits == 1) {
        args.out[item.row * args.out_stride + int64_t{first_head} * kDim + e] =
            Normalised(value, sum) * Type::kOutputFactor;
      } else {
        const int64_t partial =
            int64_t{item.first_partial + item.split} * args.num_heads + first_head + head;
        args.partial_out[partial * kDim + d] = value;
        if (d == 0) {
          args.partial_softmax[2 * partial] = maximum;
          args.partial_softmax[2 * partial + 1] = sum;
        }
      }
    }
  }

  // The row's result, by the last block of threads to arrive, in order of its splits.
  static __device__ __forceinline__ void MergeSplits(const PagedDecodeArgs& args,
                                                     const DecodeItem& item, int first_head,
                                                     int heads) {
    // Past the first-level cache: other multiprocessors have written these.
    const auto load = [](const float* place) { return __ldcg(place); };
    for (int e = threadIdx.x; e < heads * kDim; e += kThreads) {
      const int64_t partial = int64_t{item.first_partial} * args.num_heads + first_head + e / kDim;
      float maximum, sum;
      const float value = Join(item.num_splits, args.partial_softmax + 2 * partial,
                               2 * args.num_heads, args.partial_out + partial * kDim + e % kDim,
                               int64_t{args.num_heads} * kDim, load, &maximum, &sum);
      args.out[item.row * args.out_stride + int64_t{first_head} * kDim + e] =
          Normalised(value, sum) * Type::kOutputFactor;
    }
  }
};

template <DType kType, int kDim, int kHeadTiles>
__global__ void __launch_bounds__(DecodeKernel<kType, kDim, kHeadTiles>::kThreads)
    PagedDecodeKernel(const __grid_constant__ PagedDecodeParams params) {
  using Kernel = DecodeKernel<kType, kDim, kHeadTiles>;
  constexpr DecodeShape kShape = Kernel::kShape;
  Smem smem;
  // The results of the warps take the rings' place.
  std::byte* ring = smem.take<std::byte>(kShape.ring_bytes, 128);
  float* softmax = smem.take<float>(kShape.warps * Kernel::kHeads * 2);
  int* is_last = smem.take<int>(1);
  float* merged = reinterpret_cast<float*>(ring);

  const PagedDecodeArgs& args = params.args;
  const int warp_index = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int group = args.num_heads / args.kv.num_kv_heads;
  const int heads = min(Kernel::kHeads, group - static_cast<int>(blockIdx.z) * Kernel::kHeads);
  const int first_head =
      static_cast<int>(blockIdx.y) * group + static_cast<int>(blockIdx.z) * Kernel::kHeads;
  const int end = args.runs[blockIdx.x + 1];
  for (int i = args.runs[blockIdx.x]; i < end; ++i) {
    const DecodeItem item = args.items[i];
    const SeenPositions seen = {
        args.sliding_window > 0 ? max(0, item.length - args.sliding_window) : 0, item.length};
    typename Kernel::Warp warp;
    Kernel::Begin(args.q + item.row * args.q_stride + int64_t{first_head} * kDim, heads, lane,
                  warp);
    Kernel::Run(params, item, seen, ring + warp_index * kShape.stages * Kernel::Tile::kBytes,
                warp_index, lane, warp);
    OCTAVO_UNLESS_PLANTED("paged_decode.rings_free", __syncthreads());
    Kernel::Leave(warp, warp_index, lane, merged, softmax);
    OCTAVO_UNLESS_PLANTED("paged_decode.warps_left", __syncthreads());
    Kernel::MergeWarps(args, item, first_head, heads, merged, softmax);
    if (item.num_splits > 1) {
      OCTAVO_UNLESS_PLANTED("paged_decode.partials_written", __syncthreads());
      if (threadIdx.x == 0) {
        uint32_t* arrived =
            args.arrivals + int64_t{item.first_partial} * args.num_heads + first_head;
        // After the barrier: releases the partial results of the whole block.
        OCTAVO_UNLESS_PLANTED("paged_decode.release", __threadfence());
        const bool last = atomicAdd(arrived, 1u) + 1 == static_cast<uint32_t>(item.num_splits);
        if (last) *arrived = 0;
        OCTAVO_UNLESS_PLANTED("paged_decode.acquire", __threadfence());
        *is_last = last ? 1 : 0;
      }
      OCTAVO_UNLESS_PLANTED("paged_decode.last_known", __syncthreads());
      if (*is_last != 0) Kernel::MergeSplits(args, item, first_head, heads);
    }
    // The next item uses ring, softmax and is_last.
    OCTAVO_UNLESS_PLANTED("paged_decode.item_done", __syncthreads());
  }
}

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_KERNELS_PAGED_DECODE_CUH_
