#include "worker/cuda/kernels/paged_decode_instances.cuh"

namespace octavo::cuda {

template absl::Status LaunchDecodeOfType<DType::kF8E5M2>(const PagedDecodeArgs& args,
                                                         cudaStream_t stream);

}  // namespace octavo::cuda
