#include "worker/cuda/kernels/paged_decode_instances.cuh"

namespace octavo::cuda {

template absl::Status LaunchDecodeOfType<DType::kI8>(const PagedDecodeArgs& args,
                                                     cudaStream_t stream);

}  // namespace octavo::cuda
