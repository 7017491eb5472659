// Weights of 4 or 8 bits as bf16 rows, for products of many rows.
#ifndef OCTAVO_WORKER_CUDA_KERNELS_DEQUANTIZE_H_
#define OCTAVO_WORKER_CUDA_KERNELS_DEQUANTIZE_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "worker/cuda/kernels/quant_layout.h"

namespace octavo::cuda {

// All pointers are device memory; strides are in elements.
struct DequantizeArgs {
  const std::byte* weight = nullptr;  // as quant_layout.h has it, from a multiple of 64 rows on
  QuantFormat format;
  uint16_t* out = nullptr;  // bf16, [rows, cols], rounded to nearest even; 16-byte aligned
  int64_t out_stride = 0;   // a multiple of 8
  int32_t rows = 0;         // the last unit may have fewer than 16
  int32_t cols = 0;         // a multiple of 32
};

// INVALID_ARGUMENT with value and limit.
absl::Status LaunchDequantize(const DequantizeArgs& args, cudaStream_t stream);

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_KERNELS_DEQUANTIZE_H_
