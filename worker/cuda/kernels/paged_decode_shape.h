// Warps, stages and shared memory of the decode kernel: one place for kernel, launch and occupancy.
#ifndef OCTAVO_WORKER_CUDA_KERNELS_PAGED_DECODE_SHAPE_H_
#define OCTAVO_WORKER_CUDA_KERNELS_PAGED_DECODE_SHAPE_H_

#include <cuda_runtime_api.h>

#include "worker/cuda/kernels/attention_items.h"

namespace octavo::cuda {

struct DecodeShape {
  int warps;
  int stages;        // tiles of a warp's ring
  int ring_bytes;    // of all warps
  int shared_bytes;  // of a block of threads
  int blocks;        // of threads that a multiprocessor's registers must leave room for
};

// Floats between the rows of the warps' results beside head_dim: without bank conflicts.
inline constexpr int kDecodeMergePadding = 4;

// head_tiles: 8 query heads each. A block's rings take some 64 KB, so that it runs where a block
// may have 99 KB (sm_86, sm_89) and three of them share the 227 KB of sm_90; head_dim 256 in 16
// bits has two warps for that. No more than 4 stages: 32 KB of the smallest tiles.
__host__ __device__ constexpr DecodeShape DecodeShapeOf(int head_dim, int element_bytes,
                                                        bool scaled, int head_tiles) {
  constexpr int kMostRingBytes = 72 * 1024;
  const int tile_bytes = 2 * kTileTokens * head_dim * element_bytes + (scaled ? 64 : 0);
  DecodeShape shape = {4, 4, 0, 0, 0};
  if (4 * 2 * tile_bytes > kMostRingBytes) shape.warps = 2;
  while (shape.stages > 2 && shape.warps * shape.stages * tile_bytes > kMostRingBytes)
    --shape.stages;
  shape.ring_bytes = shape.warps * shape.stages * tile_bytes;
  const int heads = 8 * head_tiles;
  const int merge_bytes = shape.warps * heads * (head_dim + kDecodeMergePadding) * 4;
  if (shape.ring_bytes < merge_bytes) shape.ring_bytes = merge_bytes;
  // Beside the rings: maximum and sum per warp and head, and who arrived last for each row of a
  // shared item, of which there are at most as many as columns.
  shape.shared_bytes = shape.ring_bytes + shape.warps * heads * 3 * 4;
  // As many as the 228 KB of sm_90 and sm_100 hold, where a block takes 1 KB more: 12 warps of 168
  // registers a thread at least, 24 of 80 at most, or 16 of 128 with two head tiles.
  shape.blocks = 228 * 1024 / (shape.shared_bytes + 1024);
  const int least = 12 / shape.warps, most = (head_tiles == 1 ? 24 : 16) / shape.warps;
  shape.blocks = shape.blocks < least ? least : shape.blocks > most ? most : shape.blocks;
  return shape;
}

// Tiles of 8 query heads that one block of threads computes.
__host__ __device__ constexpr int DecodeHeadTiles(int head_dim, int group) {
  return group > 8 && (head_dim == 64 || head_dim == 128) ? 2 : 1;
}

// Rows that one shared item takes: its columns, rows x the query heads of a block of threads, fill
// the head tiles of all warps.
__host__ __device__ constexpr int DecodeSharedRows(const DecodeShape& shape, int head_tiles,
                                                   int group) {
  const int heads = 8 * head_tiles;
  return shape.warps * heads / (group < heads ? group : heads);
}

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_KERNELS_PAGED_DECODE_SHAPE_H_
