// Attention of single rows (decodes) over the paged cache: Kwon et al., PagedAttention (SOSP'23),
// split over positions like Flash-Decoding, with the tokens of a tile as M of the tensor cores.
#ifndef OCTAVO_WORKER_CUDA_KERNELS_PAGED_DECODE_H_
#define OCTAVO_WORKER_CUDA_KERNELS_PAGED_DECODE_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/status/status.h"
#include "worker/cuda/kernels/attention_items.h"
#include "worker/cuda/kernels/paged_kv.h"

namespace octavo::cuda {

// All pointers are device memory. Everything that changes from step to step is read from it, so
// that a captured launch serves every later step with as many parts.
struct PagedDecodeArgs {
  const float* q = nullptr;  // [rows][num_heads * head_dim]; heads in order (kv head, group)
  int64_t q_stride = 0;      // elements between rows; q is 8-byte aligned and the stride even
  float* out = nullptr;      // the same shape; rows that no item names stay as they are
  int64_t out_stride = 0;
  int32_t num_heads = 0;  // a multiple of kv.num_kv_heads
  PagedKv kv;
  const int32_t* block_tables = nullptr;  // of the layer's group
  const DecodeItem* items = nullptr;
  const int32_t* runs = nullptr;  // [num_parts + 1]: part i has items [runs[i], runs[i + 1])
  int32_t num_parts = 0;          // blocks of threads that share the rows of one KV head
  float scale = 0;                // of the scores, usually 1 / sqrt(head_dim)
  float softcap = 0;              // c: a scaled score s becomes c tanh(s / c); 0: it stays
  int32_t sliding_window = 0;     // positions a row sees, itself included; 0: all before it
  // Of rows in more than one item; the list says how many partials. May be nullptr without any.
  float* partial_out = nullptr;      // [partials][num_heads][head_dim]
  float* partial_softmax = nullptr;  // [partials][num_heads][2]: maximum (log2), sum
  uint32_t* arrivals = nullptr;      // [partials][num_heads]; zero before and after
};

// INVALID_ARGUMENT or UNIMPLEMENTED with value and limit: head_dim 64, 80, 96, 128 or 256; cache
// bf16, fp16, int8, fp8_e4m3 or fp8_e5m2; block size 8, 16, 32 or 64.
absl::Status LaunchPagedDecode(const PagedDecodeArgs& args, cudaStream_t stream);

// Whether there is a kernel for the cache's shape and that many query heads; kv.data is not looked
// at.
absl::Status CheckPagedDecode(const PagedKv& kv, int32_t num_heads);

// Blocks of threads of this shape that one multiprocessor holds, by shared memory: what num_parts
// should be worth, together over all KV heads. REQUIRES: a shape that LaunchPagedDecode takes.
int32_t PagedDecodeBlocksPerMultiprocessor(const PagedKv& kv, int32_t num_heads,
                                           int32_t shared_bytes_per_multiprocessor);

// Blocks of threads that one KV head's query heads take, beside each other: 1 up to 16 of them
// (head_dim 64 and 128) or 8 (80, 96 and 256).
int32_t PagedDecodeHeadTiles(int32_t head_dim, int32_t group);

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_KERNELS_PAGED_DECODE_H_
