#include "worker/cuda/kernels/paged_prefill_instances.cuh"

namespace octavo::cuda {

template absl::Status LaunchPrefillOfType<DType::kF8E5M2>(const PagedPrefillArgs& args,
                                                          cudaStream_t stream);

}  // namespace octavo::cuda
