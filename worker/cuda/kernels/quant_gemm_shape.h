// Warps, stages and shared memory of quant_gemm: one place for kernel, launch and occupancy.
#ifndef OCTAVO_WORKER_CUDA_KERNELS_QUANT_GEMM_SHAPE_H_
#define OCTAVO_WORKER_CUDA_KERNELS_QUANT_GEMM_SHAPE_H_

#include <cuda_runtime_api.h>

#include "worker/cuda/kernels/quant_layout.h"

namespace octavo::cuda {

inline constexpr int kQuantMergePadding = 4;  // floats: sums are stored without bank conflicts

struct QuantGemmShape {
  int tiles;  // of 16 rows of the weight, of a block of threads
  int warps;
  int stages;        // chunks of a warp's ring
  int stage_bytes;   // of one warp
  int ring_bytes;    // of all warps
  int shared_bytes;  // of a block of threads
};

// batch_tiles: 8 rows of x each. Rings take at most 96 KB, so that a block runs where it may have
// 99 KB (sm_86, sm_89) and two share the 227 KB of sm_90. From 9 rows of x on, twice the weight
// rows meet each of them; for 32, fewer warps leave registers for the sums, as they leave room
// where chunks are largest.
__host__ __device__ constexpr QuantGemmShape QuantGemmShapeOf(int bits, bool has_min,
                                                              int batch_tiles) {
  constexpr int kMostRingBytes = 96 * 1024;
  QuantGemmShape shape = {batch_tiles == 1 ? 2 : 4, batch_tiles == 4 ? 4 : 8, 5, 0, 0, 0};
  shape.stage_bytes =
      kQuantChunkGroups * (shape.tiles * QuantUnitBytes(bits, has_min) + batch_tiles * 8 * 32 * 2);
  if (shape.warps * 2 * shape.stage_bytes > kMostRingBytes) shape.warps = 4;
  while (shape.stages > 2 && shape.warps * shape.stages * shape.stage_bytes > kMostRingBytes)
    --shape.stages;
  shape.ring_bytes = shape.warps * shape.stages * shape.stage_bytes;
  const int merge_bytes =
      shape.warps * batch_tiles * 8 * (shape.tiles * kQuantTile + kQuantMergePadding) * 4;
  if (shape.ring_bytes < merge_bytes) shape.ring_bytes = merge_bytes;
  shape.shared_bytes = shape.ring_bytes + 16;
  return shape;
}

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_KERNELS_QUANT_GEMM_SHAPE_H_
