// Grid of GateRow: (pieces of 1,024 columns, rows), blocks of 128 threads with 8 columns each.
// Bytes per output element: 8 in, 2 (bf16, fp16) and 4 (fp32) out. In flight: 64 bytes per thread,
// 8 KiB per block.
//
// GateScaledRow, of e4m3: one block per row, because its scale is the whole row's, of up to 1,024
// threads with 8 columns per step. It computes the row twice, to find its largest magnitude and to
// write it, and reads it the second time from L1 or L2: 8 bytes in, 1 out. In flight: 64 KiB a
// block.
#include "worker/cuda/kernels/gate.h"

#include <algorithm>

#include "worker/cuda/kernels/launch.cuh"
#include "worker/cuda/kernels/row_access.cuh"
#include "worker/cuda/kernels/row_scale.cuh"
#include "worker/cuda/kernels/shape_check.h"
#include "worker/cuda/kernels/smem.cuh"
#include "worker/cuda/kernels/warp.cuh"

namespace octavo::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kMaxScaledThreads = 1024;
constexpr int kMaxScaledWarps = kMaxScaledThreads / 32;

// The tanh form is a logistic too: (1 + tanh u) / 2 = 1 / (1 + e^-2u).
template <GateActivation kActivation>
__device__ __forceinline__ float Activate(float x) {
  float t = x;
  if constexpr (kActivation == GateActivation::kGeluTanh)
    t = 1.5957691216f * fmaf(x * x * x, 0.044715f, x);
  return x / (1.0f + __expf(-t));
}

// activation(gate) * up of eight columns.
template <GateActivation kActivation, bool kVector>
__device__ __forceinline__ void Gated(const float* gate, int cols, int left, float (&v)[kRowStep]) {
  float up[kRowStep];
  LoadFloats<kVector>(gate, left, v);
  LoadFloats<kVector>(gate + cols, left, up);
#pragma unroll
  for (int i = 0; i < kRowStep; ++i) v[i] = Activate<kActivation>(v[i]) * up[i];
}

}  // namespace

template <GateActivation kActivation, DType kType, bool kVector>
__global__ void __launch_bounds__(kThreads) GateRow(const __grid_constant__ GateArgs a) {
  const int c = static_cast<int>(blockIdx.x * kThreads + threadIdx.x) * kRowStep;
  const int left = a.cols - c;
  if (left <= 0) return;
  const int64_t row = blockIdx.y;
  float v[kRowStep];
  Gated<kActivation, kVector>(a.gate_up + row * a.gate_up_stride + c, a.cols, left, v);
  if (a.rounded != nullptr) {
    auto* rounded = static_cast<uint16_t*>(a.rounded) + row * a.rounded_stride;
    StoreRounded<kType, kVector>(rounded, c, left, v);
  }
  if (a.out != nullptr) StoreFloats<kVector>(a.out + row * a.out_stride + c, left, v);
}

template <GateActivation kActivation, bool kVector>
__global__ void __launch_bounds__(kMaxScaledThreads)
    GateScaledRow(const __grid_constant__ GateArgs a) {
  Smem smem;
  uint32_t* peaks = smem.take<uint32_t>(kMaxScaledWarps);
  const float* gate = a.gate_up + blockIdx.x * a.gate_up_stride;
  auto* rounded = static_cast<uint8_t*>(a.rounded) + blockIdx.x * a.rounded_stride;
  const int step = static_cast<int>(blockDim.x) * kRowStep;
  const int first = static_cast<int>(threadIdx.x) * kRowStep;
  uint32_t largest = 0;
  for (int c = first; c < a.cols; c += step) {
    float v[kRowStep];
    Gated<kActivation, kVector>(gate + c, a.cols, a.cols - c, v);
    WidenRange(v, largest);
  }
  const float range = RangeOf(BlockMax(largest, peaks));
  if (threadIdx.x == 0) a.rounded_scales[blockIdx.x] = range / kLargestE4m3;
  const float factor = kLargestE4m3 / range;
  for (int c = first; c < a.cols; c += step) {
    float v[kRowStep];
    Gated<kActivation, kVector>(gate + c, a.cols, a.cols - c, v);
#pragma unroll
    for (int i = 0; i < kRowStep; ++i) v[i] *= factor;
    StoreRounded<DType::kF8E4M3, kVector>(rounded, c, a.cols - c, v);
  }
}

namespace {

template <GateActivation kActivation, DType kType>
absl::Status LaunchFor(const GateArgs& args, bool vector, cudaStream_t stream) {
  const int pieces = (args.cols + kThreads * kRowStep - 1) / (kThreads * kRowStep);
  return Launch(vector ? GateRow<kActivation, kType, true> : GateRow<kActivation, kType, false>,
                dim3(pieces, args.rows), dim3(kThreads), 0, stream, args);
}

template <GateActivation kActivation>
absl::Status LaunchOfType(const GateArgs& args, bool vector, cudaStream_t stream) {
  const int steps = (args.cols + kRowStep - 1) / kRowStep;
  const int threads = std::min((steps + 31) / 32 * 32, kMaxScaledThreads);
  switch (args.type) {
    case DType::kBF16:
      return LaunchFor<kActivation, DType::kBF16>(args, vector, stream);
    case DType::kF16:
      return LaunchFor<kActivation, DType::kF16>(args, vector, stream);
    case DType::kF8E4M3:
      return Launch(vector ? GateScaledRow<kActivation, true> : GateScaledRow<kActivation, false>,
                    dim3(args.rows), dim3(threads), kMaxScaledWarps * sizeof(uint32_t), stream,
                    args);
    default:
      return absl::UnimplementedError("gate: rows are rounded to bf16, fp16 or fp8_e4m3");
  }
}

}  // namespace

absl::Status LaunchGate(const GateArgs& args, cudaStream_t stream) {
  ShapeCheck check("gate");
  check.Between("rows", args.rows, 0, kMaxGridY).Between("cols", args.cols, 1, 1 << 29);
  check.AtLeast("the stride of gate_up", args.gate_up_stride, int64_t{2} * args.cols);
  check.NotNull("gate_up", args.gate_up);
  if (args.rounded == nullptr) check.NotNull("out", args.out);
  if (args.rounded != nullptr)
    check.AtLeast("the stride of rounded", args.rounded_stride, args.cols);
  if (args.type == DType::kF8E4M3) {
    check.NotNull("rounded", args.rounded).NotNull("rounded_scales", args.rounded_scales);
    if (check.status().ok() && args.out != nullptr)
      return absl::InvalidArgumentError("gate: rows of fp8_e4m3 leave no fp32 rows beside them");
  }
  if (args.out != nullptr) check.AtLeast("the stride of out", args.out_stride, args.cols);
  if (!check.status().ok() || args.rows == 0) return check.status();
  const bool vector = args.cols % 8 == 0 && args.gate_up_stride % 4 == 0 &&
                      IsAligned16(args.gate_up) && args.rounded_stride % 8 == 0 &&
                      IsAligned16(args.rounded) && args.out_stride % 4 == 0 &&
                      IsAligned16(args.out);
  switch (args.activation) {
    case GateActivation::kSilu:
      return LaunchOfType<GateActivation::kSilu>(args, vector, stream);
    case GateActivation::kGeluTanh:
      return LaunchOfType<GateActivation::kGeluTanh>(args, vector, stream);
  }
  return absl::UnimplementedError("gate: unknown activation");
}

}  // namespace octavo::cuda
