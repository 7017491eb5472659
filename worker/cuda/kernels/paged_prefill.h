// Causal attention of chunks of rows over the paged cache, the chunk's own keys and values
// included: they are in the cache already (det.2). FlashAttention-2 (Dao, 2023) with GQA packed.
#ifndef OCTAVO_WORKER_CUDA_KERNELS_PAGED_PREFILL_H_
#define OCTAVO_WORKER_CUDA_KERNELS_PAGED_PREFILL_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/status/status.h"
#include "worker/cuda/kernels/attention_items.h"
#include "worker/cuda/kernels/paged_attention.h"

namespace octavo::cuda {

// All pointers are device memory; out is 8-byte aligned and its stride even.
struct PagedPrefillArgs : PagedAttentionArgs {
  const PrefillItem* items = nullptr;  // [num_items], the heaviest first
  int32_t num_items = 0;
};

// A row's bits depend on its query, its sequence's cache and the shape only, not on how the
// sequence is cut into chunks. INVALID_ARGUMENT or UNIMPLEMENTED as CheckPagedArgs.
absl::Status LaunchPagedPrefill(const PagedPrefillArgs& args, cudaStream_t stream);

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_KERNELS_PAGED_PREFILL_H_
