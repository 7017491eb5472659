// y = x W^T for few rows of x and weights of 4 or 8 bits, which are read once as they are stored.
#ifndef OCTAVO_WORKER_CUDA_KERNELS_QUANT_GEMM_H_
#define OCTAVO_WORKER_CUDA_KERNELS_QUANT_GEMM_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "worker/cuda/kernels/quant_layout.h"

namespace octavo::cuda {

// All pointers are device memory; strides are in elements.
struct QuantGemmArgs {
  const uint16_t* x = nullptr;        // bf16, [rows, in_features]
  int64_t x_stride = 0;               // a multiple of 8
  const std::byte* weight = nullptr;  // [out_features, in_features] as quant_layout.h has it
  QuantFormat format;
  const float* bias = nullptr;  // [out_features] or nullptr
  float* out = nullptr;         // [rows, out_features]
  int64_t out_stride = 0;
  int32_t rows = 0;         // up to kMaxQuantRows
  int32_t in_features = 0;  // a multiple of 32
  int32_t out_features = 0;
  bool add = false;  // out += instead of out =
};

// Beyond, dequantising is cheaper (docs/cuda.md).
inline constexpr int32_t kMaxQuantRows = 128;

// How a product is cut; depends on shapes and the card only, so sums have one order for each.
struct QuantGemmPlan {
  int32_t batch_tiles = 1;  // of 8 rows of x, computed by one block of threads: 1, 2 or 4
  int32_t splits = 1;       // of the columns, by blocks of threads
};
QuantGemmPlan PlanQuantGemm(int32_t rows, int32_t in_features, int32_t out_features,
                            int32_t multiprocessors);

// What split products of any shape need on a card.
struct QuantGemmWorkspace {
  float* partials = nullptr;    // QuantPartialElements(multiprocessors)
  int32_t* arrivals = nullptr;  // QuantArrivals(multiprocessors); zero, and zero again afterwards
};
int64_t QuantPartialElements(int32_t multiprocessors);
int64_t QuantArrivals(int32_t multiprocessors);

// Products are of exact codes with bf16 x, sums fp32; a group's sum is scaled in fp32, so weights
// are not rounded. INVALID_ARGUMENT with value and limit. REQUIRES: nothing else uses the workspace
// at the same time.
absl::Status LaunchQuantGemm(const QuantGemmArgs& args, const QuantGemmPlan& plan,
                             const QuantGemmWorkspace& workspace, cudaStream_t stream);

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_KERNELS_QUANT_GEMM_H_
