// The decode kernel. Grid: (parts, KV heads, tiles of query heads); block: kWarps warps.
//
// A block of threads computes the items of its part, one after the other.
//
// An item of one row: the row's query heads are the columns (decode_columns.cuh). Warp w has every
// kWarps-th tile of 16 tokens from the w-th on and its own ring of tiles in shared memory, so that
// the loop has no barrier of the block; the warps' results are merged at the end. GQA costs nothing
// up to 8 query heads, and 16 share what is read where kHeadTiles is 2.
//
// A shared item: rows whose sequences begin with the same blocks. Their query heads fill the
// columns of all warps, 32 or 64 of them, and every warp computes its columns for the tiles of all
// rings, in step with the others: each tile is read once for all rows. Each column has one warp, so
// its partial result goes from registers to device memory, where the row's last split merges it.
//
// Bytes moved: each tile of K and V once for an item, everything else is small: a shared item
// leaves rows x heads x (d + 2) floats, at 32 columns as much as 32 tokens of d in bf16. In flight,
// of head_dim 128 in bf16: a tile is 8 KB, a ring has 2, so a block of 4 warps has 32 KB requested
// while it computes 32 KB; three blocks (64 KB of shared memory each) make 96 KB on a
// multiprocessor, where 4.8 TB/s x 700 ns / 132 = 25 KB are needed. A tile costs a warp some 180
// instructions, and at 4.3 TB/s a multiprocessor gets 8 KB every 440 cycles, in which its four
// schedulers issue 1,760: 180 for a row's tile, 720 for a shared one. Shared memory gives a shared
// tile to four warps, 32 KB in 256 cycles. So shared items of 16-bit caches are bound by memory
// too; of 8-bit caches, at 220 cycles and 4 x 200 to 4 x 390 instructions a tile, by issue.
#ifndef OCTAVO_WORKER_CUDA_KERNELS_PAGED_DECODE_CUH_
#define OCTAVO_WORKER_CUDA_KERNELS_PAGED_DECODE_CUH_

#include "worker/cuda/kernels/decode_columns.cuh"
#include "worker/cuda/kernels/decode_merge.cuh"
#include "worker/cuda/kernels/paged_decode.h"
#include "worker/cuda/kernels/paged_decode_shape.h"
#include "worker/cuda/kernels/paged_kv.cuh"
#include "worker/cuda/kernels/plant.cuh"
#include "worker/cuda/kernels/ptx.cuh"
#include "worker/cuda/kernels/smem.cuh"
#include "worker/cuda/kernels/warp.cuh"

namespace octavo::cuda {

struct PagedDecodeParams {
  PagedDecodeArgs args;
  ScoreScale score;
  int32_t block_shift;  // log2 of the slots of a block
  int32_t group;        // query heads of one KV head
};

template <DType kType, int kDim, int kHeadTiles>
struct DecodeKernel {
  using Type = Element<kType>;
  using Tile = KvTile<kType, kDim>;
  using Columns = DecodeColumns<kType, kDim, kHeadTiles>;
  static constexpr DecodeShape kShape =
      DecodeShapeOf(kDim, Type::kBytes, Type::kScaled, kHeadTiles);
  static constexpr int kWarps = kShape.warps;
  static constexpr int kStages = kShape.stages;
  static constexpr int kHeads = Columns::kColumns;
  static constexpr int kThreads = kWarps * 32;
  static constexpr int kMergeStride = kDim + kDecodeMergePadding;  // floats

  // Row number i of the item; of an item of one row the only one.
  static __device__ __forceinline__ RowSplits RowOf(const PagedDecodeArgs& args,
                                                    const DecodeItem& item, int i) {
    if (item.num_shared == 0) return {item.row, item.num_splits, item.first_partial};
    const SharedRow row = args.shared_rows[item.row + i];
    return {row.row, row.num_splits, row.first_partial};
  }

  // This warp's columns of the item over its tiles: the warp's own, or all of them where the item
  // is shared.
  static __device__ __forceinline__ void Attend(const PagedDecodeParams& params,
                                                const DecodeItem item, HeadRange heads,
                                                std::byte* rings, int warp_index, int lane,
                                                Columns& columns) {
    const PagedDecodeArgs& args = params.args;
    const bool is_shared = item.num_shared > 0;
    const int first_column = is_shared ? warp_index * kHeads : 0;
    const int num_columns = (is_shared ? item.num_shared : 1) * heads.count;
    columns.Begin(lane, [&](int column) -> const float* {
      column += first_column;
      if (column >= num_columns) return nullptr;
      const int row = RowOf(args, item, column / heads.count).row;
      return args.q + row * args.q_stride + int64_t{heads.first + column % heads.count} * kDim;
    });
    const SeenPositions seen = {
        args.sliding_window > 0 && !is_shared ? max(0, item.length - args.sliding_window) : 0,
        item.length};
    // Rings whose tiles this warp computes.
    const int first_ring = is_shared ? 0 : warp_index;
    const int end_ring = !is_shared ? warp_index + 1 : first_column < num_columns ? kWarps : 0;
    AddTiles(params, item, seen, rings, warp_index, lane, first_ring, end_ring, columns);
  }

  // Copies the warp's tiles to its ring and adds those of the rings [first_ring, end_ring) to its
  // columns. Blocks of the table are looked up one tile before they are needed, so that their
  // latency hides behind a tile's.
  static __device__ __forceinline__ void AddTiles(const PagedDecodeParams& params,
                                                  const DecodeItem& item, SeenPositions seen,
                                                  std::byte* rings, int warp_index, int lane,
                                                  int first_ring, int end_ring, Columns& columns) {
    constexpr int kRingBytes = kStages * Tile::kBytes;
    const PagedKv& kv = params.args.kv;
    const bool is_shared = item.num_shared > 0;
    const auto find = [&](int tile) {
      if (tile >= item.end_tile) return TileBlocks();
      const auto entry = [&](int i) { return params.args.block_tables[item.table_begin + i]; };
      return BlocksOfTile(entry, params.block_shift, tile * kTileTokens, seen.end);
    };
    const auto copy = [&](int tile, TileBlocks blocks, int stage) {
      if (tile < item.end_tile)
        CopyTile<kType, kDim>(kv, static_cast<int>(blockIdx.y), blocks, tile * kTileTokens, seen,
                              lane, 32, rings + warp_index * kRingBytes + stage * Tile::kBytes);
      ptx::cp_commit();
    };
    const int first = item.begin_tile + warp_index;
    TileBlocks blocks = find(first);
#pragma unroll
    for (int stage = 0; stage < kStages - 1; ++stage) {
      const TileBlocks following = find(first + (stage + 1) * kWarps);
      copy(first + stage * kWarps, blocks, stage);
      blocks = following;
    }
    int stage = 0;
    for (int pass = item.begin_tile; pass + first_ring < item.end_tile; pass += kWarps) {
      const int next = pass + warp_index + (kStages - 1) * kWarps;  // to copy
      const TileBlocks following = find(next + kWarps);
      copy(next, blocks, stage == 0 ? kStages - 1 : stage - 1);
      blocks = following;
      OCTAVO_UNLESS_PLANTED("paged_decode.wait", ptx::cp_wait<kStages - 1>());
      if (is_shared)
        OCTAVO_UNLESS_PLANTED("paged_decode.shared_tiles_arrived", __syncthreads());
      else
        OCTAVO_UNLESS_PLANTED("paged_decode.tile_arrived", __syncwarp());
      const int end = min(end_ring, item.end_tile - pass);
#pragma unroll 1
      for (int ring = first_ring; ring < end; ++ring)
        columns.AddTile(params.score, rings + ring * kRingBytes + stage * Tile::kBytes,
                        (pass + ring) * kTileTokens, seen, lane);
      // The slot is copied into from here on.
      if (is_shared)
        OCTAVO_UNLESS_PLANTED("paged_decode.shared_slots_free", __syncthreads());
      else
        OCTAVO_UNLESS_PLANTED("paged_decode.slot_free", __syncwarp());
      stage = stage + 1 == kStages ? 0 : stage + 1;
    }
    ptx::cp_wait<0>();
  }

  // The item's result from its warps': the row's, or a partial one. merged: [kWarps][kHeads]
  // [kMergeStride], softmax: [kWarps][kHeads][2].
  static __device__ __forceinline__ void MergeWarps(const PagedDecodeArgs& args,
                                                    const DecodeItem& item, HeadRange heads,
                                                    const float* merged, const float* softmax) {
    const auto load = [](const float* place) { return *place; };
    for (int e = threadIdx.x; e < heads.count * kDim; e += kThreads) {
      const int head = e / kDim, d = e % kDim;
      float maximum, sum;
      const float value =
          JoinResults(kWarps, softmax + 2 * head, 2 * kHeads, merged + head * kMergeStride + d,
                      kHeads * kMergeStride, load, &maximum, &sum);
      if (item.num_splits == 1) {
        args.out[item.row * args.out_stride + int64_t{heads.first} * kDim + e] =
            Normalised(value, sum) * Type::kOutputFactor;
      } else {
        const int64_t partial =
            int64_t{item.first_partial + item.split} * args.num_heads + heads.first + head;
        args.partial_out[partial * kDim + d] = value;
        if (d == 0) {
          args.partial_softmax[2 * partial] = maximum;
          args.partial_softmax[2 * partial + 1] = sum;
        }
      }
    }
  }

  // A warp's columns of a shared item, from `first_column` on, to their rows' partial results.
  static __device__ __forceinline__ void StoreShared(const PagedDecodeArgs& args,
                                                     const DecodeItem& item, HeadRange heads,
                                                     int first_column, int lane,
                                                     const Columns& columns) {
    const int end = item.num_shared * heads.count;
    const auto partial_of = [&](int column) {
      const RowSplits splits = RowOf(args, item, column / heads.count);
      return int64_t{splits.first_partial + item.split} * args.num_heads + heads.first +
             column % heads.count;
    };
    columns.Leave(
        lane,
        [&](int column) {
          column += first_column;
          return column < end ? args.partial_out + partial_of(column) * kDim : nullptr;
        },
        [&](int column) { return args.partial_softmax + 2 * partial_of(first_column + column); });
  }
};

template <DType kType, int kDim, int kHeadTiles>
__global__ void __launch_bounds__(DecodeKernel<kType, kDim, kHeadTiles>::kThreads,
                                  DecodeKernel<kType, kDim, kHeadTiles>::kShape.blocks)
    PagedDecodeKernel(const __grid_constant__ PagedDecodeParams params) {
  using Kernel = DecodeKernel<kType, kDim, kHeadTiles>;
  constexpr DecodeShape kShape = Kernel::kShape;
  Smem smem;
  // The results of the warps take the rings' place.
  std::byte* rings = smem.take<std::byte>(kShape.ring_bytes, 128);
  float* softmax = smem.take<float>(kShape.warps * Kernel::kHeads * 2);
  int* is_last = smem.take<int>(kShape.warps * Kernel::kHeads);
  float* merged = reinterpret_cast<float*>(rings);

  const PagedDecodeArgs& args = params.args;
  const int warp_index = WarpIndex(), lane = threadIdx.x % 32;
  const int first_of_group = static_cast<int>(blockIdx.z) * Kernel::kHeads;
  const HeadRange heads = {static_cast<int>(blockIdx.y) * params.group + first_of_group,
                           min(Kernel::kHeads, params.group - first_of_group)};
  for (int i = args.runs[blockIdx.x]; i < args.runs[blockIdx.x + 1]; ++i) {
    typename Kernel::Columns columns;
    Kernel::Attend(params, args.items[i], heads, rings, warp_index, lane, columns);
    // Read once more, from the first-level cache: the loop over tiles needs the registers.
    const DecodeItem item = args.items[i];
    const bool is_shared = item.num_shared > 0;
    const int num_rows = is_shared ? item.num_shared : 1;
    if (is_shared) {
      const int first_column = warp_index * Kernel::kHeads;
      if (first_column < num_rows * heads.count)
        Kernel::StoreShared(args, item, heads, first_column, lane, columns);
    } else {
      OCTAVO_UNLESS_PLANTED("paged_decode.rings_free", __syncthreads());
      float* const own = merged + warp_index * Kernel::kHeads * Kernel::kMergeStride;
      float* const own_softmax = softmax + warp_index * Kernel::kHeads * 2;
      columns.Leave(
          lane, [&](int head) { return own + head * Kernel::kMergeStride; },
          [&](int head) { return own_softmax + 2 * head; });
      OCTAVO_UNLESS_PLANTED("paged_decode.warps_left", __syncthreads());
      Kernel::MergeWarps(args, item, heads, merged, softmax);
    }
    if (is_shared || item.num_splits > 1) {
      OCTAVO_UNLESS_PLANTED("paged_decode.partials_written", __syncthreads());
      if (const int row = static_cast<int>(threadIdx.x); row < num_rows) {
        const RowSplits splits = Kernel::RowOf(args, item, row);
        uint32_t* arrivals =
            args.arrivals + int64_t{splits.first_partial} * args.num_heads + heads.first;
        is_last[row] = ArriveLast(arrivals, splits.num_splits) ? 1 : 0;
      }
      OCTAVO_UNLESS_PLANTED("paged_decode.last_known", __syncthreads());
      for (int row = 0; row < num_rows; ++row)
        if (is_last[row] != 0)
          MergeSplits<kType, kDim, Kernel::kThreads>(args, Kernel::RowOf(args, item, row), heads);
    }
    // The next item uses rings, softmax and is_last.
    OCTAVO_UNLESS_PLANTED("paged_decode.item_done", __syncthreads());
  }
}

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_KERNELS_PAGED_DECODE_CUH_
