// The attention kernels per type of the cache, as their launch functions find them.
#ifndef OCTAVO_WORKER_CUDA_KERNELS_ATTENTION_TYPES_H_
#define OCTAVO_WORKER_CUDA_KERNELS_ATTENTION_TYPES_H_

#include "absl/status/status.h"
#include "worker/cuda/kernels/paged_decode.h"
#include "worker/cuda/kernels/paged_prefill.h"

namespace octavo::cuda {

// Defined in paged_decode_instances.cuh. REQUIRES: checked args of a cache of this type.
template <DType kType>
absl::Status LaunchDecodeOfType(const PagedDecodeArgs& args, cudaStream_t stream);

// Defined in paged_prefill_instances.cuh. REQUIRES: checked args of a cache of this type.
template <DType kType>
absl::Status LaunchPrefillOfType(const PagedPrefillArgs& args, cudaStream_t stream);

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_KERNELS_ATTENTION_TYPES_H_
