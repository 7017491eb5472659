// Where an element of K or V lies in the CUDA worker's pool, for kernels, the host and tests.
//
//   pool   [block][layer of the block][K|V][kv_head][slot] rows of head_dim elements; of int8 the
//          fp16 scales [K|V][kv_head][slot] follow at the end of the block's layer
//   row    16-byte chunks, permuted so that eight rows of one chunk, which ldmatrix reads together,
//          lie in eight different groups of shared memory banks wherever 8 slots are copied to
//
// A row has n chunks, and g is the greatest power of two that divides n, at most 8. Chunk c of slot
// s is stored at c ^ ((s / (8 / g)) % g): for n = 8 and its multiples c ^ (s & 7); for an odd n the
// rows themselves start in different groups, and nothing moves. Chunks stay within their g.
//
// A block is one piece of 2 x kv_heads x block_size x (head_dim x bytes [+ 2]) bytes per layer, a
// multiple of 16, as CacheGeometry::bytes_per_layer_block() says.
#ifndef OCTAVO_WORKER_CUDA_KERNELS_PAGED_KV_H_
#define OCTAVO_WORKER_CUDA_KERNELS_PAGED_KV_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "common/dtype.h"

namespace octavo::cuda {

// One layer of the pool. The pool passes 4 GiB: offsets of blocks are 64-bit.
struct PagedKv {
  std::byte* data = nullptr;  // device; the layer's place in block 0, 16-byte aligned
  int64_t block_stride = 0;   // bytes from one block to the next
  DType dtype = DType::kBF16;
  int32_t block_size = 16;  // slots: 8, 16, 32 or 64
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
};

inline constexpr int kKeys = 0;
inline constexpr int kValues = 1;
inline constexpr int kChunkBytes = 16;

// Of one row. REQUIRES: a 16- or 8-bit type.
__host__ __device__ constexpr int RowBytes(DType dtype, int head_dim) {
  return dtype == DType::kBF16 || dtype == DType::kF16 ? 2 * head_dim : head_dim;
}

// Chunk number in memory of chunk `chunk` of the row in `slot`; its own inverse.
__host__ __device__ constexpr int StoredChunk(int chunk, int chunks_per_row, int slot) {
  const int lowest_bit = chunks_per_row & -chunks_per_row;
  const int group = lowest_bit > 8 ? 8 : lowest_bit;
  return chunk ^ ((slot / (8 / group)) & (group - 1));
}

// Bytes from the layer's place in a block to the row in `slot`.
__host__ __device__ constexpr int64_t RowOffset(const PagedKv& kv, int keys_or_values, int kv_head,
                                                int slot) {
  const int64_t row = (int64_t{keys_or_values} * kv.num_kv_heads + kv_head) * kv.block_size + slot;
  return row * RowBytes(kv.dtype, kv.head_dim);
}

// The same to element d of the row.
__host__ __device__ constexpr int64_t ElementOffset(const PagedKv& kv, int keys_or_values,
                                                    int kv_head, int slot, int d) {
  const int row_bytes = RowBytes(kv.dtype, kv.head_dim);
  const int byte = d * (row_bytes / kv.head_dim);
  const int chunk = StoredChunk(byte / kChunkBytes, row_bytes / kChunkBytes, slot);
  return RowOffset(kv, keys_or_values, kv_head, slot) + chunk * kChunkBytes + byte % kChunkBytes;
}

// The same to the fp16 scale of an int8 row. The scales of 8 slots are one 16-byte chunk.
__host__ __device__ constexpr int64_t ScaleOffset(const PagedKv& kv, int keys_or_values,
                                                  int kv_head, int slot) {
  const int64_t row = (int64_t{keys_or_values} * kv.num_kv_heads + kv_head) * kv.block_size + slot;
  return int64_t{2} * kv.num_kv_heads * kv.block_size * kv.head_dim + 2 * row;
}

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_KERNELS_PAGED_KV_H_
