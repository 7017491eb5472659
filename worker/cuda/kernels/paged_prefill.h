// Causal attention of chunks of rows over the paged cache, the chunk's own keys and values
// included: they are in the cache already (det.2). FlashAttention-2 (Dao, 2023) with GQA packed.
#ifndef OCTAVO_WORKER_CUDA_KERNELS_PAGED_PREFILL_H_
#define OCTAVO_WORKER_CUDA_KERNELS_PAGED_PREFILL_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/status/status.h"
#include "worker/cuda/kernels/attention_items.h"
#include "worker/cuda/kernels/paged_kv.h"

namespace octavo::cuda {

// All pointers are device memory.
struct PagedPrefillArgs {
  const float* q = nullptr;  // [rows][num_heads * head_dim]; heads in order (kv head, group)
  int64_t q_stride = 0;      // elements between rows; q is 8-byte aligned and the stride even
  float* out = nullptr;      // the same shape; rows that no item names stay as they are
  int64_t out_stride = 0;    // even, out 8-byte aligned
  int32_t num_heads = 0;     // a multiple of kv.num_kv_heads
  PagedKv kv;
  const int32_t* block_tables = nullptr;  // of the layer's group
  const PrefillItem* items = nullptr;     // [num_items], the heaviest first
  int32_t num_items = 0;
  float scale = 0;             // of the scores, usually 1 / sqrt(head_dim)
  float softcap = 0;           // c: a scaled score s becomes c tanh(s / c); 0: it stays
  int32_t sliding_window = 0;  // positions a row sees, itself included; 0: all before it
};

// A row's bits depend on its query, its sequence's cache and the shape only, not on how the
// sequence is cut into chunks. INVALID_ARGUMENT or UNIMPLEMENTED as LaunchPagedDecode.
absl::Status LaunchPagedPrefill(const PagedPrefillArgs& args, cudaStream_t stream);

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_KERNELS_PAGED_PREFILL_H_
