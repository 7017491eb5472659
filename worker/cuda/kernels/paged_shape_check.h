// What both attention kernels ask of a cache and of the rows beside it.
#ifndef OCTAVO_WORKER_CUDA_KERNELS_PAGED_SHAPE_CHECK_H_
#define OCTAVO_WORKER_CUDA_KERNELS_PAGED_SHAPE_CHECK_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "worker/cuda/kernels/paged_kv.h"

namespace octavo::cuda {

// Rows of q and out, and the numbers of the scores.
struct AttentionRows {
  const float* q = nullptr;
  int64_t q_stride = 0;
  const float* out = nullptr;
  int64_t out_stride = 0;
  float scale = 0;
  float softcap = 0;
  int32_t sliding_window = 0;
};

// `op` comes first in messages. UNIMPLEMENTED for a cache dtype or a head_dim without a kernel,
// INVALID_ARGUMENT for shapes that contradict each other.
absl::Status CheckPagedShape(absl::string_view op, const PagedKv& kv, int32_t num_heads);
// The same, with pointers, strides and alignments.
absl::Status CheckPagedRows(absl::string_view op, const PagedKv& kv, int32_t num_heads,
                            const AttentionRows& rows, const void* block_tables, const void* items);

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_KERNELS_PAGED_SHAPE_CHECK_H_
