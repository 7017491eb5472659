#include "worker/cuda/quant_product.h"

#include <algorithm>

#include "absl/memory/memory.h"
#include "common/status_macros.h"
#include "common/status_naming.h"
#include "worker/cuda/cuda_status.h"
#include "worker/cuda/device_memory.h"
#include "worker/cuda/kernels/dequantize.h"

namespace octavo::cuda {

absl::StatusOr<std::unique_ptr<QuantProduct>> QuantProduct::Create(Gemm& gemm,
                                                                   int32_t multiprocessors,
                                                                   cudaStream_t stream,
                                                                   int64_t scratch_bytes) {
  auto product = absl::WrapUnique(new QuantProduct(gemm, multiprocessors, scratch_bytes));
  const auto floats = static_cast<size_t>(QuantPartialElements(multiprocessors));
  const auto arrivals = static_cast<size_t>(QuantArrivals(multiprocessors)) * sizeof(int32_t);
  OCTAVO_RETURN_IF_ERROR(Naming("partial sums of products of 4 and 8 bits",
                                Grow(product->partials_, floats * sizeof(float))));
  OCTAVO_RETURN_IF_ERROR(
      Naming("arrivals of products of 4 and 8 bits", Grow(product->arrivals_, arrivals)));
  OCTAVO_RETURN_IF_ERROR(Naming("scratch of dequantised weights",
                                Grow(product->scratch_, static_cast<size_t>(scratch_bytes))));
  OCTAVO_RETURN_IF_ERROR(ToStatus(cudaMemsetAsync(product->arrivals_.data(), 0, arrivals, stream),
                                  "cudaMemsetAsync of arrivals"));
  return product;
}

absl::Status QuantProduct::Run(const GemmArgs& args, const std::byte* weight, QuantFormat format,
                               cudaStream_t stream) {
  if (args.rows > kMaxQuantRows) return RunDequantized(args, weight, format, stream);
  QuantGemmArgs quant;
  quant.x = static_cast<const uint16_t*>(args.x);
  quant.x_stride = args.x_stride;
  quant.weight = weight;
  quant.format = format;
  quant.bias = args.bias;
  quant.out = args.out;
  quant.out_stride = args.out_stride;
  quant.rows = static_cast<int32_t>(args.rows);
  quant.in_features = static_cast<int32_t>(args.in_features);
  quant.out_features = static_cast<int32_t>(args.out_features);
  quant.add = args.add;
  const QuantGemmPlan plan =
      PlanQuantGemm(quant.rows, quant.in_features, quant.out_features, multiprocessors_);
  return LaunchQuantGemm(quant, plan, {partials_.as<float>(), arrivals_.as<int32_t>()}, stream);
}

absl::Status QuantProduct::RunDequantized(const GemmArgs& args, const std::byte* weight,
                                          QuantFormat format, cudaStream_t stream) {
  const int64_t row_bytes = args.weight_stride * int64_t{sizeof(uint16_t)};
  const int64_t most =
      std::max<int64_t>(scratch_bytes_ / row_bytes / kQuantBlockRows, 1) * kQuantBlockRows;  // rows
  OCTAVO_RETURN_IF_ERROR(Grow(scratch_, static_cast<size_t>(most * row_bytes)));
  for (int64_t first = 0; first < args.out_features; first += most) {
    DequantizeArgs piece;
    piece.weight = weight + QuantBytes(format, first, args.in_features);
    piece.format = format;
    piece.out = scratch_.as<uint16_t>();
    piece.out_stride = args.weight_stride;
    piece.rows = static_cast<int32_t>(std::min(most, args.out_features - first));
    piece.cols = static_cast<int32_t>(args.in_features);
    OCTAVO_RETURN_IF_ERROR(LaunchDequantize(piece, stream));
    GemmArgs product = args;
    product.weight = scratch_.as<uint16_t>();
    product.out = args.out + first;
    product.bias = args.bias == nullptr ? nullptr : args.bias + first;
    product.out_features = piece.rows;
    OCTAVO_RETURN_IF_ERROR(gemm_.Run(product, stream));
  }
  return absl::OkStatus();
}

}  // namespace octavo::cuda
