// Tiles of 16 tokens of one KV head on their way from the pool (paged_kv.h) through shared memory
// into matrix registers.
#ifndef OCTAVO_WORKER_CUDA_KERNELS_PAGED_KV_CUH_
#define OCTAVO_WORKER_CUDA_KERNELS_PAGED_KV_CUH_

#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>

#include "worker/cuda/kernels/attention_items.h"
#include "worker/cuda/kernels/element.cuh"
#include "worker/cuda/kernels/paged_kv.h"
#include "worker/cuda/kernels/ptx.cuh"

namespace octavo::cuda {

// Tokens of a tile come in halves of 8, which are contiguous in a block of any size.
inline constexpr int kHalfTokens = 8;

// In shared memory a tile is 16 rows of K, 16 rows of V, and of int8 their scales: K of each half,
// V of each half, 16 bytes each.
template <DType kType, int kDim>
struct KvTile {
  static constexpr int kRowBytes = kDim * Element<kType>::kBytes;
  static constexpr int kChunks = kRowBytes / kChunkBytes;
  static constexpr int kPieces = (kChunks + 1) / 2;  // of two chunks
  static constexpr int kRowsBytes = kTileTokens * kRowBytes;
  static constexpr int kScalesBytes = Element<kType>::kScaled ? 4 * kChunkBytes : 0;
  static constexpr int kBytes = 2 * kRowsBytes + kScalesBytes;
};

// Positions [first, end) that some row sees; rows of other positions become zeros, whatever their
// slots hold: p = 0 times a NaN would be a NaN.
struct SeenPositions {
  int first;
  int end;
};

// A tile's places in the pool.
struct TileBlocks {
  int32_t low = 0;   // block of its tokens 0 to 7
  int32_t high = 0;  // and of its tokens 8 to 15
};

// Of the tile at `position`, before `end`, where the sequence's positions end: entry(i) is number i
// of its table and is not asked for past `end`. Blocks of 8 tokens: the table may end with the
// tile's first half.
template <class Entry>
__device__ __forceinline__ TileBlocks BlocksOfTile(const Entry& entry, int block_shift,
                                                   int position, int end) {
  TileBlocks blocks;
  if (position >= end) return blocks;
  blocks.low = entry(position >> block_shift);
  blocks.high =
      position + kHalfTokens < end ? entry((position + kHalfTokens) >> block_shift) : blocks.low;
  return blocks;
}

// The thread's share, of `threads`, of copying the tile that starts at `position`. Complete when
// the thread's copies are; other threads' shares are seen after a barrier.
template <DType kType, int kDim>
__device__ __forceinline__ void CopyTile(const PagedKv& kv, int kv_head, TileBlocks blocks,
                                         int position, SeenPositions seen, int thread, int threads,
                                         std::byte* tile) {
  using Tile = KvTile<kType, kDim>;
  const int slot = position & (kv.block_size - 1);  // of the low half
  const int high_slot = kv.block_size == kHalfTokens ? 0 : slot + kHalfTokens;
  const std::byte* low = kv.data + blocks.low * kv.block_stride;
  const std::byte* high = kv.data + blocks.high * kv.block_stride;
  // Offsets inside a block's layer stay below 2^31: 64 slots x 2 x heads x 512 bytes.
  const int head_bytes = kv.block_size * Tile::kRowBytes;
  const int low_keys = kv_head * head_bytes + slot * Tile::kRowBytes;
  const int high_keys = kv_head * head_bytes + high_slot * Tile::kRowBytes;
  const int to_values = kv.num_kv_heads * head_bytes;
  constexpr int kHalfChunks = kHalfTokens * Tile::kChunks;
  for (int chunk = thread; chunk < 2 * kHalfChunks; chunk += threads) {
    const bool in_high = chunk >= kHalfChunks;
    const int row = position + chunk / Tile::kChunks;
    const int valid = row >= seen.first && row < seen.end ? kChunkBytes : 0;
    const std::byte* source = in_high ? high + high_keys + (chunk - kHalfChunks) * kChunkBytes
                                      : low + low_keys + chunk * kChunkBytes;
    ptx::cp_async16(tile + chunk * kChunkBytes, source, valid);
    ptx::cp_async16(tile + Tile::kRowsBytes + chunk * kChunkBytes, source + to_values, valid);
  }
  if constexpr (Element<kType>::kScaled) {
    if (thread < 4) {
      const bool in_high = (thread & 1) != 0;
      const int head = thread / 2 * kv.num_kv_heads + kv_head;  // K of all heads, then V
      const int scales = 2 * to_values + 2 * (head * kv.block_size + (in_high ? high_slot : slot));
      const int valid = position + (in_high ? kHalfTokens : 0) < seen.end ? kChunkBytes : 0;
      ptx::cp_async16(tile + 2 * Tile::kRowsBytes + thread * kChunkBytes,
                      (in_high ? high : low) + scales, valid);
    }
  }
}

// Where in a row of fp16 or bf16 queries in shared memory the elements of `pair`, 2 pair and
// 2 pair + 1, belong, so that QueryPiece gives the order of KeysB: the number of a pair.
template <DType kType>
__device__ __forceinline__ int QueryPair(int pair) {
  if constexpr (!Element<kType>::kEightBit) return pair;
  const int within = pair & 7;
  return pair - within + (within & 1) * 4 + within / 2;
}

// A raw piece: chunks `chunk` and `chunk` + 1 of 16 rows of `kChunks`, as four 8 x 8 matrices of
// 16-bit units: rows 0 to 7 of the chunk, rows 8 to 15, and both of the next (where there is none,
// once more of the last). All lanes of a warp call this.
template <int kChunks, bool kTransposed>
__device__ __forceinline__ void LoadPiece(uint32_t (&raw)[4], const std::byte* rows, int chunk,
                                          int lane) {
  const int row = lane & 15;
  int own = chunk + (lane >> 4);
  if (kChunks % 2 != 0 && own == kChunks) own = kChunks - 1;
  // Chunks move within groups of 8 at most: apart from the group, which the caller knows when it
  // compiles, few places are left, and so are registers.
  const int group = chunk / 8 * 8;
  const std::byte* place = rows + group * kChunkBytes +
                           (row * kChunks + StoredChunk(own - group, kChunks, row)) * kChunkBytes;
  if constexpr (kTransposed)
    ptx::ldmatrix_x4_trans(raw, place);
  else
    ptx::ldmatrix_x4(raw, place);
}

// The scale of a token of a tile's K (kKeys) or V (kValues).
template <DType kType, int kDim>
__device__ __forceinline__ float TileScale(const std::byte* tile, int keys_or_values, int token) {
  const std::byte* scales = tile + 2 * KvTile<kType, kDim>::kRowsBytes;
  return __half2float(
      reinterpret_cast<const __half*>(scales)[keys_or_values * kTileTokens + token]);
}

// p times the scale of a token's values as fp16 will take it. `p` is 0 where the row does not see
// the token, whose scale may then be anything.
__device__ __forceinline__ float ScaledProbability(float p, float scale, float factor) {
  const float scaled = p * scale * factor;
  const float most = 65504.0f;
  return p == 0.0f ? 0.0f : scaled > most ? most : scaled;
}

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_KERNELS_PAGED_KV_CUH_
