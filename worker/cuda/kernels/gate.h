// Gated activations of a feed-forward layer: Shazeer, "GLU Variants Improve Transformer" (2020).
#ifndef OCTAVO_WORKER_CUDA_KERNELS_GATE_H_
#define OCTAVO_WORKER_CUDA_KERNELS_GATE_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/status/status.h"
#include "common/dtype.h"

namespace octavo::cuda {

enum class GateActivation {
  kSilu,      // x / (1 + e^-x)
  kGeluTanh,  // x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
};

// out[r][c] = activation(gate_up[r][c]) * gate_up[r][cols + c]. All pointers are device memory;
// strides are in elements. One of the outputs may be nullptr; beside rows of e4m3 the other must
// be.
struct GateArgs {
  const float* gate_up = nullptr;  // [rows, 2 * cols]: {gate, up}
  int64_t gate_up_stride = 0;
  GateActivation activation = GateActivation::kSilu;
  void* rounded = nullptr;  // of `type`, [rows, cols], as the next product reads it
  int64_t rounded_stride = 0;
  float* out = nullptr;  // [rows, cols]
  int64_t out_stride = 0;
  int32_t rows = 0;
  int32_t cols = 0;
  DType type = DType::kBF16;        // or kF16, kF8E4M3
  float* rounded_scales = nullptr;  // [rows], of e4m3: a row's largest magnitude over 448
};

// INVALID_ARGUMENT with value and limit, of rows 65,535.
absl::Status LaunchGate(const GateArgs& args, cudaStream_t stream);

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_KERNELS_GATE_H_
