// Whole blocks of the pool from one place to another: copy-on-write (kv.2).
#ifndef OCTAVO_WORKER_CUDA_KERNELS_BLOCK_COPY_H_
#define OCTAVO_WORKER_CUDA_KERNELS_BLOCK_COPY_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "common/step.h"

namespace octavo::cuda {

struct BlockCopyArgs {
  std::byte* pool = nullptr;  // device, 16-byte aligned: block 0
  int64_t block_bytes = 0;    // a multiple of 16
  // Device, [count]: no block is both a source and a target.
  const BlockCopy* copies = nullptr;
  int32_t count = 0;
};

// INVALID_ARGUMENT with value and limit. REQUIRES: ids inside the pool (they are device memory here
// and are checked where the host has them).
absl::Status LaunchBlockCopy(const BlockCopyArgs& args, cudaStream_t stream);

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_KERNELS_BLOCK_COPY_H_
