// Ops on fp32 rows, element by element.
#ifndef OCTAVO_WORKER_CUDA_KERNELS_POINTWISE_H_
#define OCTAVO_WORKER_CUDA_KERNELS_POINTWISE_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/status/status.h"

namespace octavo::cuda {

// All pointers are device memory; strides are in elements.

// x = cap tanh(x / cap): Gemma 2 (Riviere et al. 2024), section 2.
struct SoftcapArgs {
  float* x = nullptr;  // [rows, cols]
  int64_t stride = 0;
  float cap = 0;  // positive
  int32_t rows = 0;
  int32_t cols = 0;
};

// INVALID_ARGUMENT with value and limit, of rows 65,535.
absl::Status LaunchSoftcap(const SoftcapArgs& args, cudaStream_t stream);

// x[r][c] += bias[c]
struct AddBiasArgs {
  float* x = nullptr;  // [rows, cols]
  int64_t stride = 0;
  const float* bias = nullptr;  // [cols]
  int32_t rows = 0;
  int32_t cols = 0;
};

absl::Status LaunchAddBias(const AddBiasArgs& args, cudaStream_t stream);

// out[r][c] = x[r][c] row_scales[r] col_scales[c] + bias[c], added to out where `add` says so: sums
// of a product whose operands had a scale per row.
struct ScaleSumsArgs {
  const float* x = nullptr;  // [rows, cols]; may be out
  int64_t x_stride = 0;
  const float* row_scales = nullptr;  // [rows]
  const float* col_scales = nullptr;  // [cols]
  const float* bias = nullptr;        // [cols]; nullptr: none
  float* out = nullptr;               // [rows, cols]
  int64_t out_stride = 0;
  bool add = false;
  int32_t rows = 0;
  int32_t cols = 0;
};

absl::Status LaunchScaleSums(const ScaleSumsArgs& args, cudaStream_t stream);

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_KERNELS_POINTWISE_H_
