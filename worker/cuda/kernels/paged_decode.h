// Attention of single rows (decodes) over the paged cache: Kwon et al., PagedAttention (SOSP'23),
// split over positions like Flash-Decoding, with the tokens of a tile as M of the tensor cores.
#ifndef OCTAVO_WORKER_CUDA_KERNELS_PAGED_DECODE_H_
#define OCTAVO_WORKER_CUDA_KERNELS_PAGED_DECODE_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/status/status.h"
#include "worker/cuda/kernels/attention_items.h"
#include "worker/cuda/kernels/paged_attention.h"

namespace octavo::cuda {

// All pointers are device memory. Everything that changes from step to step is read from it, so
// that a captured launch serves every later step with as many parts.
struct PagedDecodeArgs : PagedAttentionArgs {
  const DecodeItem* items = nullptr;
  const int32_t* runs = nullptr;  // [num_parts + 1]: part i has items [runs[i], runs[i + 1])
  int32_t num_parts = 0;          // blocks of threads that share the rows of one KV head
  const SharedRow* shared_rows = nullptr;  // of shared items; may be nullptr without any
  // Of rows in more than one item; the list says how many partials. May be nullptr without any.
  float* partial_out = nullptr;      // [partials][num_heads][head_dim]
  float* partial_softmax = nullptr;  // [partials][num_heads][2]: maximum (log2), sum
  uint32_t* arrivals = nullptr;      // [partials][num_heads]; zero before and after
};

// INVALID_ARGUMENT or UNIMPLEMENTED as CheckPagedArgs.
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

// Rows that one shared item may have, 2 or more.
int32_t PagedDecodeSharedRows(const PagedKv& kv, int32_t num_heads);

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_KERNELS_PAGED_DECODE_H_
