// Rotary position embedding, optional RMSNorm per head, and the write of K and V into the pool: Su
// et al., RoFormer (2021).
#ifndef OCTAVO_WORKER_CUDA_KERNELS_ROPE_KV_WRITE_H_
#define OCTAVO_WORKER_CUDA_KERNELS_ROPE_KV_WRITE_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/status/status.h"
#include "worker/cuda/kernels/paged_kv.h"

namespace octavo::cuda {

// All pointers are device memory; strides are in elements.
struct RopeKvWriteArgs {
  // [rows, (num_heads + 2 * kv.num_kv_heads) * kv.head_dim]: q, k, v. q and k are rotated in place.
  float* qkv = nullptr;
  int64_t qkv_stride = 0;
  int32_t rows = 0;
  int32_t num_heads = 0;
  PagedKv kv;
  const float* q_norm = nullptr;  // [head_dim]; nullptr: no norm of q
  const float* k_norm = nullptr;
  float q_eps = 0;
  float k_eps = 0;
  const float* cos_sin = nullptr;  // [max_positions, rotary_dim / 2, 2]
  int32_t rotary_dim = 0;          // even, at most head_dim
  int32_t max_positions = 0;
  bool interleaved = false;            // pairs (2i, 2i + 1) instead of (i, i + rotary_dim / 2)
  const int32_t* positions = nullptr;  // [rows], below max_positions
  const int64_t* slots = nullptr;      // [rows]; block * block_size + offset in it
};

// The bits of q, k and the pool are those of the CPU backend's op for the same qkv: fp32 without
// fused operations, sums of squares in its order, its rounding. INVALID_ARGUMENT with value and
// limit: head_dim a multiple of 8 up to 256 with rows of whole 16-byte chunks; UNIMPLEMENTED for a
// float32 pool. REQUIRES: positions and slots in range; they are device memory here and are checked
// where the host has them.
absl::Status LaunchRopeKvWrite(const RopeKvWriteArgs& args, cudaStream_t stream);

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_KERNELS_ROPE_KV_WRITE_H_
