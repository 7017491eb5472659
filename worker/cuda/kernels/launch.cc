#include "worker/cuda/kernels/launch.h"

#include "absl/strings/str_cat.h"

namespace octavo::cuda {

absl::Status CheckRange(absl::string_view what, int64_t value, int64_t min, int64_t max) {
  if (value >= min && value <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " is ", value, "; it must be between ", min, " and ", max));
}

absl::Status CheckMultiple(absl::string_view what, int64_t value, int64_t factor) {
  if (value > 0 && value % factor == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " is ", value, "; it must be a positive multiple of ", factor));
}

absl::Status LaunchStatus(cudaError_t error, dim3 grid, dim3 block, size_t shared_bytes) {
  if (error == cudaSuccess) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("launch of ", grid.x, "x", grid.y, "x", grid.z,
                                          " blocks of ", block.x, "x", block.y, "x", block.z,
                                          " threads with ", shared_bytes,
                                          " bytes of shared memory: ", cudaGetErrorString(error)));
}

}  // namespace octavo::cuda
