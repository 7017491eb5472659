// The prefill kernel. Grid: (items, KV heads); block: 4 warps.
//
// A block of threads computes 64 packed rows, tokens of a chunk x query heads of one KV head, warp
// w rows 16 w to 16 w + 15 as M of mma.m16n8k16. It walks the positions that some row sees in tiles
// of 64 (32 at head_dim 256), counted from position 0 whatever the chunk: a row's tiles, and so its
// bits, do not depend on the rows beside it, since what it does not see weighs exactly 0. Two tiles
// are in shared memory, one on its way while the other is used; a warp skips tiles that none of its
// rows sees and masks only those at the edge. Block tables come through shared memory, 128 entries
// at a time, the next ones held in a register meanwhile.
//
// Bytes moved: K and V of what is seen once per 64 packed rows, from the second-level cache for
// most of them, as neighbouring items run beside each other. Arithmetic: 4 d flops per row and
// position: 64 rows x 64 positions x 128 in bf16 are 2.1 MFLOP for 32 KB read, 64 flops a byte;
// at 4.3 TB/s a block's tensor cores, not memory, bound it (780 TFLOP/s / 4.3 TB/s = 181, of which
// the second-level cache supplies the rest).
//
// Registers of head_dim 128: O 64, Q 32, S 32, fragments and addresses. At 256 O takes 128, so Q
// stays in shared memory and S is 32 positions wide.
#ifndef OCTAVO_WORKER_CUDA_KERNELS_PAGED_PREFILL_CUH_
#define OCTAVO_WORKER_CUDA_KERNELS_PAGED_PREFILL_CUH_

#include "worker/cuda/kernels/element.cuh"
#include "worker/cuda/kernels/online_softmax.cuh"
#include "worker/cuda/kernels/paged_kv.cuh"
#include "worker/cuda/kernels/paged_prefill.h"
#include "worker/cuda/kernels/plant.cuh"
#include "worker/cuda/kernels/ptx.cuh"
#include "worker/cuda/kernels/smem.cuh"

namespace octavo::cuda {

struct PagedPrefillParams {
  PagedPrefillArgs args;
  ScoreScale score;
};

template <DType kType, int kDim>
struct PrefillKernel {
  using Type = Element<kType>;
  using Tile = KvTile<kType, kDim>;
  static constexpr int kWarps = kPackedRows / 16;
  static constexpr int kThreads = kWarps * 32;
  static constexpr int kSteps = kDim / 16;
  static constexpr int kTiles = kDim > 128 ? 2 : 4;         // of 16 tokens: what a pass handles
  static constexpr int kPassTokens = kTiles * kTileTokens;  //
  static constexpr int kStages = 2;
  static constexpr int kQueryChunks = kDim / 8;
  static constexpr bool kQueryInRegisters = kDim <= 128;
  static constexpr int kTableEntries = kThreads;
  static constexpr int kQueryBytes = kPackedRows * kDim * 2;
  static constexpr int kStageBytes = kTiles * Tile::kBytes;
  static constexpr int kSharedBytes = kQueryBytes + kStages * kStageBytes + kTableEntries * 4;

  // Lane = 4 g + t; fragments of S and O hold rows g and g + 8 of the warp's 16.
  struct Warp {
    uint32_t q[kQueryInRegisters ? kSteps : 1][4];
    float o[2 * kSteps][4];
    RunningSoftmax softmax[2];
    int position[2];
    // Of the warp's rows: what any of them sees, [first_seen, last_position], and what all see.
    int first_seen, last_position;
    int all_see_from, all_see_to;
  };

  // Rows in the order and type of the tensor cores; rows past the chunk's are zeros.
  static __device__ __forceinline__ void StoreQueries(const PagedPrefillArgs& args,
                                                      const PrefillItem& item, int group,
                                                      int packed_rows, std::byte* queries) {
    constexpr int kPairs = kDim / 2;
    for (int e = threadIdx.x; e < kPackedRows * kPairs; e += kThreads) {
      const int row = e / kPairs, pair = e % kPairs;
      const int packed = item.first_packed_row + row;
      float2 values = make_float2(0.0f, 0.0f);
      if (packed < packed_rows) {
        const int head = static_cast<int>(blockIdx.y) * group + packed % group;
        values = *reinterpret_cast<const float2*>(
            args.q + int64_t{item.first_row + packed / group} * args.q_stride +
            int64_t{head} * kDim + 2 * pair);
      }
      const int place = QueryPair<kType>(pair);
      const int chunk = StoredChunk(place / 4, kQueryChunks, row);
      *reinterpret_cast<uint32_t*>(queries + (row * kQueryChunks + chunk) * kChunkBytes +
                                   place % 4 * 4) = Type::Pack(values.x, values.y);
    }
  }

  static __device__ __forceinline__ void Begin(const PagedPrefillArgs& args,
                                               const PrefillItem& item, int group, int packed_rows,
                                               int warp_index, int lane, Warp& warp) {
    const auto position = [&](int row) {
      return item.context_length + min(item.first_packed_row + row, packed_rows - 1) / group;
    };
    const auto first_seen = [&](int at) {
      return args.sliding_window > 0 ? max(0, at - args.sliding_window + 1) : 0;
    };
    const int first = position(warp_index * 16), last = position(warp_index * 16 + 15);
    warp.first_seen = first_seen(first);
    warp.last_position = last;
    warp.all_see_from = first_seen(last);
    warp.all_see_to = first;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      warp.position[row] = position(warp_index * 16 + (lane >> 2) + 8 * row);
      warp.softmax[row] = RunningSoftmax::Empty();
    }
#pragma unroll
    for (int n = 0; n < 2 * kSteps; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) warp.o[n][i] = 0.0f;
  }

  static __device__ __forceinline__ void Scores(const std::byte* stage, const std::byte* queries,
                                                const Warp& warp, int lane,
                                                float (&s)[2 * kTiles][4]) {
#pragma unroll
    for (int n = 0; n < 2 * kTiles; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) s[n][i] = 0.0f;
#pragma unroll
    for (int piece = 0; piece < Tile::kPieces; ++piece) {
      uint32_t q[Type::kStepsPerPiece][4];
#pragma unroll
      for (int half = 0; half < Type::kStepsPerPiece; ++half) {
        const int step = piece * Type::kStepsPerPiece + half;
        if (step >= kSteps) continue;
        if constexpr (kQueryInRegisters) {
#pragma unroll
          for (int i = 0; i < 4; ++i) q[half][i] = warp.q[step][i];
        } else {
          LoadPiece<kQueryChunks, false>(q[half], queries, 2 * step, lane);
        }
      }
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        uint32_t raw[4];
        LoadPiece<Tile::kChunks, false>(raw, stage + tile * Tile::kBytes, 2 * piece, lane);
#pragma unroll
        for (int half = 0; half < Type::kStepsPerPiece; ++half) {
          if (piece * Type::kStepsPerPiece + half >= kSteps) continue;
#pragma unroll
          for (int tokens = 0; tokens < 2; ++tokens) {
            uint32_t keys[2];
            Type::KeysB(raw, half, tokens, keys);
            Type::Mma(s[2 * tile + tokens], q[half], keys);
          }
        }
      }
    }
  }

  // Turns scores of the positions from `start` on into weights, and rescales what was summed.
  static __device__ __forceinline__ void Weights(const PagedPrefillParams& params,
                                                 const std::byte* stage, int start, int lane,
                                                 float (&s)[2 * kTiles][4], Warp& warp) {
    const int window = params.args.sliding_window;
    const bool masked = start < warp.all_see_from || start + kPassTokens - 1 > warp.all_see_to;
    float maximum[2] = {-INFINITY, -INFINITY};
#pragma unroll
    for (int n = 0; n < 2 * kTiles; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int token = 8 * (n & 1) + 2 * (lane & 3) + (i & 1);
        float qk = s[n][i];
        if constexpr (Type::kScaled)
          qk *= TileScale<kType, kDim>(stage + n / 2 * Tile::kBytes, kKeys, token);
        s[n][i] = params.score(qk);
        if (masked) {
          const int position = start + n / 2 * kTileTokens + token;
          const int row = warp.position[i >> 1];
          if (position > row || (window > 0 && position <= row - window)) s[n][i] = -INFINITY;
        }
        maximum[i >> 1] = fmaxf(maximum[i >> 1], s[n][i]);
      }
    float reference[2], earlier[2];
#pragma unroll
    for (int row = 0; row < 2; ++row)
      reference[row] = warp.softmax[row].Raise(LanesMax<1, 4>(maximum[row]), &earlier[row]);
#pragma unroll
    for (int n = 0; n < 2 * kSteps; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) warp.o[n][i] *= earlier[i >> 1];
#pragma unroll
    for (int n = 0; n < 2 * kTiles; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        s[n][i] = SoftmaxWeight(s[n][i], reference[i >> 1]);
        warp.softmax[i >> 1].sum += s[n][i];
        if constexpr (Type::kScaled) {
          const int token = 8 * (n & 1) + 2 * (lane & 3) + (i & 1);
          const float scale = TileScale<kType, kDim>(stage + n / 2 * Tile::kBytes, kValues, token);
          s[n][i] = ScaledProbability(s[n][i], scale, Type::kProbabilityFactor);
        }
      }
  }

  static __device__ __forceinline__ void AddValues(const std::byte* stage,
                                                   const float (&s)[2 * kTiles][4], int lane,
                                                   Warp& warp) {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      // Accumulators of two neighbouring n are operand A of the next product.
      const uint32_t p[4] = {Type::Pack(s[2 * tile][0], s[2 * tile][1]),
                             Type::Pack(s[2 * tile][2], s[2 * tile][3]),
                             Type::Pack(s[2 * tile + 1][0], s[2 * tile + 1][1]),
                             Type::Pack(s[2 * tile + 1][2], s[2 * tile + 1][3])};
      const std::byte* values = stage + tile * Tile::kBytes + Tile::kRowsBytes;
#pragma unroll
      for (int piece = 0; piece < Tile::kPieces; ++piece) {
        uint32_t raw[4];
        LoadPiece<Tile::kChunks, true>(raw, values, 2 * piece, lane);
#pragma unroll
        for (int half = 0; half < Type::kStepsPerPiece; ++half) {
          const int step = piece * Type::kStepsPerPiece + half;
          if (step >= kSteps) continue;
#pragma unroll
          for (int part = 0; part < 2; ++part) {
            uint32_t fragment[2];
            Type::ValuesB(raw, half, part, fragment);
            Type::Mma(warp.o[2 * step + part], p, fragment);
          }
        }
      }
    }
  }

  static __device__ __forceinline__ void StoreOutput(const PagedPrefillArgs& args,
                                                     const PrefillItem& item, int group,
                                                     int packed_rows, int warp_index, int lane,
                                                     Warp& warp) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const float sum = LanesSum<1, 4>(warp.softmax[row].sum);
      const int packed = item.first_packed_row + warp_index * 16 + (lane >> 2) + 8 * row;
      if (packed >= packed_rows) continue;
      const int head = static_cast<int>(blockIdx.y) * group + packed % group;
      float* out = args.out + int64_t{item.first_row + packed / group} * args.out_stride +
                   int64_t{head} * kDim;
#pragma unroll
      for (int step = 0; step < kSteps; ++step)
#pragma unroll
        for (int part = 0; part < 2; ++part)
#pragma unroll
          for (int i = 0; i < 2; ++i)
            out[step * 16 + Type::OutputElement(8 * part + 2 * (lane & 3) + i)] =
                Normalised(warp.o[2 * step + part][2 * row + i], sum) * Type::kOutputFactor;
    }
  }
};

// Entries of a block table, a window of them in shared memory. All threads of a block call MoveTo
// together.
template <int kEntries>
class TableWindow {
 public:
  // `entries`: [count], from the first one that will be asked for.
  __device__ __forceinline__ TableWindow(const int32_t* entries, int count, int32_t* window)
      : entries_(entries), count_(count), window_(window), ahead_(Load(0)) {}

  // Entries [at, at + 8) may be read after this, 8 being what a pass needs at most. REQUIRES: `at`
  // grows by at most kEntries; windows start at multiples of it.
  __device__ __forceinline__ void MoveTo(int at) {
    if (at < next_) return;
    window_[threadIdx.x] = ahead_;
    next_ += kEntries;
    ahead_ = Load(next_);
    OCTAVO_UNLESS_PLANTED("paged_prefill.table_read", __syncthreads());
  }
  __device__ __forceinline__ int32_t operator[](int at) const {
    return window_[at & (kEntries - 1)];
  }

 private:
  __device__ __forceinline__ int32_t Load(int first) const {
    const int at = first + static_cast<int>(threadIdx.x);
    return at < count_ ? entries_[at] : 0;
  }

  const int32_t* entries_;
  int count_;
  int32_t* window_;
  int next_ = 0;  // the window holds the kEntries entries before this
  int32_t ahead_;
};

template <DType kType, int kDim>
__global__ void __launch_bounds__(PrefillKernel<kType, kDim>::kThreads)
    PagedPrefillKernel(const __grid_constant__ PagedPrefillParams params) {
  using Kernel = PrefillKernel<kType, kDim>;
  Smem smem;
  std::byte* queries = smem.take<std::byte>(Kernel::kQueryBytes, 128);
  std::byte* stages = smem.take<std::byte>(Kernel::kStages * Kernel::kStageBytes, 128);
  int32_t* window = smem.take<int32_t>(Kernel::kTableEntries);

  const PagedPrefillArgs& args = params.args;
  const PrefillItem item = args.items[blockIdx.x];
  const int warp_index = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int group = args.num_heads / args.kv.num_kv_heads;
  const int packed_rows = item.num_rows * group;
  const int block_shift = __ffs(args.kv.block_size) - 1;
  const SeenPositions seen = {item.begin_position, item.end_position};
  const int first_start = item.begin_position / Kernel::kPassTokens * Kernel::kPassTokens;
  const int first_entry = first_start >> block_shift;
  const int num_entries = ((item.end_position - 1) >> block_shift) + 1 - first_entry;
  TableWindow<Kernel::kTableEntries> table(args.block_tables + item.table_begin + first_entry,
                                           num_entries, window);

  const auto copy = [&](int start, int stage) {
    if (start < seen.end) {
      table.MoveTo((start >> block_shift) - first_entry);
      constexpr int kThreadsPerTile = Kernel::kThreads / Kernel::kTiles;
      const int tile = threadIdx.x / kThreadsPerTile;
      const int position = start + tile * kTileTokens;
      const TileBlocks blocks = BlocksOfTile([&](int entry) { return table[entry - first_entry]; },
                                             block_shift, position, seen.end);
      CopyTile<kType, kDim>(args.kv, static_cast<int>(blockIdx.y), blocks, position, seen,
                            threadIdx.x % kThreadsPerTile, kThreadsPerTile,
                            stages + stage * Kernel::kStageBytes + tile * Kernel::Tile::kBytes);
    }
    ptx::cp_commit();
  };
  copy(first_start, 0);
  Kernel::StoreQueries(args, item, group, packed_rows, queries);
  typename Kernel::Warp warp;
  Kernel::Begin(args, item, group, packed_rows, warp_index, lane, warp);
  const std::byte* warp_queries = queries + warp_index * 16 * kDim * 2;
  if constexpr (Kernel::kQueryInRegisters) {
    OCTAVO_UNLESS_PLANTED("paged_prefill.queries_stored", __syncthreads());
#pragma unroll
    for (int step = 0; step < Kernel::kSteps; ++step)
      LoadPiece<Kernel::kQueryChunks, false>(warp.q[step], warp_queries, 2 * step, lane);
  }
  int stage = 0;
  for (int start = first_start; start < seen.end; start += Kernel::kPassTokens, stage ^= 1) {
    OCTAVO_UNLESS_PLANTED("paged_prefill.wait", ptx::cp_wait<0>());
    // This pass's tiles have arrived; the other stage and the table's window are free again.
    OCTAVO_UNLESS_PLANTED("paged_prefill.tiles_arrived", __syncthreads());
    copy(start + Kernel::kPassTokens, stage ^ 1);
    if (start > warp.last_position || start + Kernel::kPassTokens <= warp.first_seen) continue;
    const std::byte* arrived = stages + stage * Kernel::kStageBytes;
    float s[2 * Kernel::kTiles][4];
    Kernel::Scores(arrived, warp_queries, warp, lane, s);
    Kernel::Weights(params, arrived, start, lane, s, warp);
    Kernel::AddValues(arrived, s, lane, warp);
  }
  ptx::cp_wait<0>();
  Kernel::StoreOutput(args, item, group, packed_rows, warp_index, lane, warp);
}

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_KERNELS_PAGED_PREFILL_CUH_
