// Launches of the decode kernel for one type of the cache. paged_decode_<type>.cu instantiate it,
// so that the types compile beside each other.
#ifndef OCTAVO_WORKER_CUDA_KERNELS_PAGED_DECODE_INSTANCES_CUH_
#define OCTAVO_WORKER_CUDA_KERNELS_PAGED_DECODE_INSTANCES_CUH_

#include <bit>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "worker/cuda/kernels/attention_types.h"
#include "worker/cuda/kernels/launch.cuh"
#include "worker/cuda/kernels/paged_decode.cuh"

namespace octavo::cuda {

template <DType kType, int kDim, int kHeadTiles>
absl::Status LaunchDecodeInstance(const PagedDecodeParams& params, cudaStream_t stream) {
  using Kernel = DecodeKernel<kType, kDim, kHeadTiles>;
  const PagedDecodeArgs& args = params.args;
  const dim3 grid(static_cast<unsigned>(args.num_parts),
                  static_cast<unsigned>(args.kv.num_kv_heads),
                  static_cast<unsigned>((params.group + Kernel::kHeads - 1) / Kernel::kHeads));
  return Launch(PagedDecodeKernel<kType, kDim, kHeadTiles>, grid, dim3(Kernel::kThreads),
                Kernel::kShape.shared_bytes, stream, params);
}

// REQUIRES: args that LaunchPagedDecode has checked, of a cache of this type.
template <DType kType>
absl::Status LaunchDecodeOfType(const PagedDecodeArgs& args, cudaStream_t stream) {
  const int32_t group = args.num_heads / args.kv.num_kv_heads;
  const PagedDecodeParams params = {
      args, MakeScoreScale(args.scale, args.softcap, Element<kType>::kFactor),
      std::countr_zero(static_cast<uint32_t>(args.kv.block_size)), group};
  const bool wide = DecodeHeadTiles(args.kv.head_dim, group) == 2;
  switch (args.kv.head_dim) {
    case 64:
      return wide ? LaunchDecodeInstance<kType, 64, 2>(params, stream)
                  : LaunchDecodeInstance<kType, 64, 1>(params, stream);
    case 80:
      return LaunchDecodeInstance<kType, 80, 1>(params, stream);
    case 96:
      return LaunchDecodeInstance<kType, 96, 1>(params, stream);
    case 128:
      return wide ? LaunchDecodeInstance<kType, 128, 2>(params, stream)
                  : LaunchDecodeInstance<kType, 128, 1>(params, stream);
    case 256:
      return LaunchDecodeInstance<kType, 256, 1>(params, stream);
    default:
      return absl::UnimplementedError(
          absl::StrCat("paged decode: no kernel of head_dim ", args.kv.head_dim));
  }
}

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_KERNELS_PAGED_DECODE_INSTANCES_CUH_
