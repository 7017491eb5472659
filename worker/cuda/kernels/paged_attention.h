// What both attention kernels take: rows of queries and of results, the cache, and how scores are
// made.
#ifndef OCTAVO_WORKER_CUDA_KERNELS_PAGED_ATTENTION_H_
#define OCTAVO_WORKER_CUDA_KERNELS_PAGED_ATTENTION_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "worker/cuda/kernels/paged_kv.h"

namespace octavo::cuda {

// All pointers are device memory.
struct PagedAttentionArgs {
  const float* q = nullptr;  // [rows][num_heads * head_dim]; heads in order (kv head, group)
  int64_t q_stride = 0;      // elements between rows; q is 8-byte aligned and the stride even
  float* out = nullptr;      // the same shape; rows that no item names stay as they are
  int64_t out_stride = 0;
  int32_t num_heads = 0;  // a multiple of kv.num_kv_heads
  PagedKv kv;
  const int32_t* block_tables = nullptr;  // of the layer's group
  float scale = 0;                        // of the scores, usually 1 / sqrt(head_dim)
  float softcap = 0;                      // c: a scaled score s becomes c tanh(s / c); 0: it stays
  int32_t sliding_window = 0;             // positions a row sees, itself included; 0: all before it
};

// `op` comes first in messages. UNIMPLEMENTED for a cache dtype or a head_dim without a kernel,
// INVALID_ARGUMENT for shapes that contradict each other, with value and limit: head_dim 64, 80,
// 96, 128 or 256; cache bf16, fp16, int8, fp8_e4m3 or fp8_e5m2; block size 8, 16, 32 or 64.
// kv.data is not looked at.
absl::Status CheckPagedShape(absl::string_view op, const PagedKv& kv, int32_t num_heads);
// The same, with pointers, strides and alignments.
absl::Status CheckPagedArgs(absl::string_view op, const PagedAttentionArgs& args,
                            const void* items);

// Calls launch.template operator()<DType>(), of the type of a cache that CheckPagedShape takes.
template <class Launch>
absl::Status LaunchForCache(DType dtype, const Launch& launch) {
  switch (dtype) {
    case DType::kF16:
      return launch.template operator()<DType::kF16>();
    case DType::kI8:
      return launch.template operator()<DType::kI8>();
    case DType::kF8E4M3:
      return launch.template operator()<DType::kF8E4M3>();
    case DType::kF8E5M2:
      return launch.template operator()<DType::kF8E5M2>();
    default:
      return launch.template operator()<DType::kBF16>();
  }
}

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_KERNELS_PAGED_ATTENTION_H_
