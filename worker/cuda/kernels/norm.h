// RMSNorm of rows: Zhang and Sennrich, "Root Mean Square Layer Normalization" (2019).
#ifndef OCTAVO_WORKER_CUDA_KERNELS_NORM_H_
#define OCTAVO_WORKER_CUDA_KERNELS_NORM_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/status/status.h"
#include "common/dtype.h"

namespace octavo::cuda {

// out[r] = round(x[row_ids[r]] / sqrt(mean(x^2) + eps) * weight): rows as a product reads them,
// rounded to bf16, fp16 or e4m3. Rows of e4m3 are codes times a scale, the row's largest magnitude
// over 448; one that holds a NaN or an infinity ends as NaN. All pointers are device memory;
// strides are in elements.
struct RmsNormArgs {
  const float* x = nullptr;  // [*, cols]
  int64_t x_stride = 0;
  const int32_t* row_ids = nullptr;  // [rows], rows of x; nullptr: all, in order
  const float* weight = nullptr;     // [cols]; nullptr: rows are only rounded
  float eps = 0;
  void* out = nullptr;  // of `type`, [rows, cols]
  int64_t out_stride = 0;
  int32_t rows = 0;
  int32_t cols = 0;
  DType type = DType::kBF16;    // or kF16, kF8E4M3
  float* out_scales = nullptr;  // [rows], of e4m3
};

// INVALID_ARGUMENT with value and limit. 16-byte accesses where cols and strides are multiples of 8
// and pointers of 16 bytes; any other shape works too.
absl::Status LaunchRmsNorm(const RmsNormArgs& args, cudaStream_t stream);

// out += x / sqrt(mean(x^2) + eps) * weight, in fp32; then, of that row, what RmsNorm would give
// with the next weight.
struct AddNormedArgs {
  const float* x = nullptr;  // [rows, cols]
  int64_t x_stride = 0;
  const float* weight = nullptr;  // [cols]
  float eps = 0;
  float* out = nullptr;  // [rows, cols]
  int64_t out_stride = 0;
  int32_t rows = 0;
  int32_t cols = 0;
  const float* next_weight = nullptr;  // [cols]; nullptr: nothing follows
  float next_eps = 0;
  void* next_out = nullptr;  // of `next_type`, [rows, cols]
  int64_t next_stride = 0;
  DType next_type = DType::kBF16;  // or kF16, kF8E4M3
  float* next_scales = nullptr;    // [rows], of e4m3
};

absl::Status LaunchAddNormed(const AddNormedArgs& args, cudaStream_t stream);

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_KERNELS_NORM_H_
