// Launches of the prefill kernel for one type of the cache. paged_prefill_<type>.cu instantiate
// it, so that the types compile beside each other.
#ifndef OCTAVO_WORKER_CUDA_KERNELS_PAGED_PREFILL_INSTANCES_CUH_
#define OCTAVO_WORKER_CUDA_KERNELS_PAGED_PREFILL_INSTANCES_CUH_

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "worker/cuda/kernels/attention_types.h"
#include "worker/cuda/kernels/launch.cuh"
#include "worker/cuda/kernels/paged_prefill.cuh"

namespace octavo::cuda {

template <DType kType, int kDim>
absl::Status LaunchPrefillInstance(const PagedPrefillParams& params, cudaStream_t stream) {
  using Kernel = PrefillKernel<kType, kDim>;
  const dim3 grid(static_cast<unsigned>(params.args.num_items),
                  static_cast<unsigned>(params.args.kv.num_kv_heads));
  return Launch(PagedPrefillKernel<kType, kDim>, grid, dim3(Kernel::kThreads), Kernel::kSharedBytes,
                stream, params);
}

// REQUIRES: args that LaunchPagedPrefill has checked, of a cache of this type.
template <DType kType>
absl::Status LaunchPrefillOfType(const PagedPrefillArgs& args, cudaStream_t stream) {
  const PagedPrefillParams params = {
      args, MakeScoreScale(args.scale, args.softcap, Element<kType>::kFactor)};
  switch (args.kv.head_dim) {
    case 64:
      return LaunchPrefillInstance<kType, 64>(params, stream);
    case 80:
      return LaunchPrefillInstance<kType, 80>(params, stream);
    case 96:
      return LaunchPrefillInstance<kType, 96>(params, stream);
    case 128:
      return LaunchPrefillInstance<kType, 128>(params, stream);
    case 256:
      return LaunchPrefillInstance<kType, 256>(params, stream);
    default:
      return absl::UnimplementedError(
          absl::StrCat("paged prefill: no kernel of head_dim ", args.kv.head_dim));
  }
}

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_KERNELS_PAGED_PREFILL_INSTANCES_CUH_
