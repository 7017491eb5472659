#include "worker/cuda/fp8_product.h"

#include <algorithm>

#include "common/log.h"
#include "common/status_macros.h"
#include "worker/cuda/device_memory.h"
#include "worker/cuda/kernels/pointwise.h"

namespace octavo::cuda {

int64_t Fp8Product::ScratchBytes(int64_t rows, int64_t cols) {
  return std::min(rows, kScratchRows) * cols * int64_t{sizeof(float)};
}

absl::Status Fp8Product::Reserve(int64_t rows, int64_t cols) {
  return Grow(scratch_, static_cast<size_t>(ScratchBytes(rows, cols)));
}

absl::Status Fp8Product::Run(const GemmArgs& args, cudaStream_t stream) {
  if (args.x_scales == nullptr || args.weight_scales == nullptr)
    return absl::InvalidArgumentError("fp8 product: the scales of x or of the weight are missing");
  if (args.rows == 0) return absl::OkStatus();
  bool& inside = scales_inside_[args.add ? 1 : 0];
  if (!inside) return RunAndScale(args, stream);
  GemmArgs product = args;
  product.bias = nullptr;
  const absl::Status status = gemm_.Run(product, stream);
  if (absl::IsUnimplemented(status)) {
    OCTAVO_LOG(kWarning, "fp8 products are scaled by a kernel of their own: ", status.message());
    inside = false;
    return RunAndScale(args, stream);
  }
  if (!status.ok() || args.bias == nullptr) return status;
  return LaunchAddBias({args.out, args.out_stride, args.bias, static_cast<int32_t>(args.rows),
                        static_cast<int32_t>(args.out_features)},
                       stream);
}

absl::Status Fp8Product::RunAndScale(const GemmArgs& args, cudaStream_t stream) {
  if (args.add) OCTAVO_RETURN_IF_ERROR(Reserve(args.rows, args.out_features));
  const int64_t most = args.add ? kScratchRows : args.rows;
  for (int64_t first = 0; first < args.rows; first += most) {
    GemmArgs product = args;
    product.rows = std::min(most, args.rows - first);
    product.x = static_cast<const std::byte*>(args.x) + first * args.x_stride;
    product.x_scales = product.weight_scales = product.bias = nullptr;
    product.add = false;
    product.out = args.add ? scratch_.as<float>() : args.out;
    product.out_stride = args.add ? args.out_features : args.out_stride;
    OCTAVO_RETURN_IF_ERROR(gemm_.Run(product, stream));
    ScaleSumsArgs scale;
    scale.x = product.out;
    scale.x_stride = product.out_stride;
    scale.row_scales = args.x_scales + first;
    scale.col_scales = args.weight_scales;
    scale.bias = args.bias;
    scale.out = args.out + first * args.out_stride;
    scale.out_stride = args.out_stride;
    scale.add = args.add;
    scale.rows = static_cast<int32_t>(product.rows);
    scale.cols = static_cast<int32_t>(args.out_features);
    OCTAVO_RETURN_IF_ERROR(LaunchScaleSums(scale, stream));
  }
  return absl::OkStatus();
}

}  // namespace octavo::cuda
