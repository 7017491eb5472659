#include "worker/cuda/kernels/paged_decode_instances.cuh"

namespace octavo::cuda {

template absl::Status LaunchDecodeOfType<DType::kBF16>(const PagedDecodeArgs& args,
                                                       cudaStream_t stream);

}  // namespace octavo::cuda
