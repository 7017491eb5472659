// Grid: (pieces of 1,024 columns, rows), blocks of 128 threads with 8 columns each. Bytes per
// output element: 8 in, 2 (bf16) and 4 (fp32) out. In flight: 64 bytes per thread, 8 KiB per block.
#include "worker/cuda/kernels/gate.h"

#include "worker/cuda/kernels/launch.cuh"
#include "worker/cuda/kernels/row_access.cuh"
#include "worker/cuda/kernels/shape_check.h"

namespace octavo::cuda {
namespace {

constexpr int kThreads = 128;

// The tanh form is a logistic too: (1 + tanh u) / 2 = 1 / (1 + e^-2u).
template <GateActivation kActivation>
__device__ __forceinline__ float Activate(float x) {
  float t = x;
  if constexpr (kActivation == GateActivation::kGeluTanh)
    t = 1.5957691216f * fmaf(x * x * x, 0.044715f, x);
  return x / (1.0f + __expf(-t));
}

}  // namespace

template <GateActivation kActivation, bool kVector>
__global__ void __launch_bounds__(kThreads) GateRow(const __grid_constant__ GateArgs a) {
  const int c = static_cast<int>(blockIdx.x * kThreads + threadIdx.x) * kRowStep;
  const int left = a.cols - c;
  if (left <= 0) return;
  const int64_t row = blockIdx.y;
  const float* gate = a.gate_up + row * a.gate_up_stride + c;
  float v[kRowStep], up[kRowStep];
  LoadFloats<kVector>(gate, left, v);
  LoadFloats<kVector>(gate + a.cols, left, up);
#pragma unroll
  for (int i = 0; i < kRowStep; ++i) v[i] = Activate<kActivation>(v[i]) * up[i];
  if (a.out_bf16 != nullptr) StoreBf16<kVector>(a.out_bf16 + row * a.out_bf16_stride + c, left, v);
  if (a.out != nullptr) StoreFloats<kVector>(a.out + row * a.out_stride + c, left, v);
}

namespace {

template <GateActivation kActivation>
absl::Status LaunchFor(const GateArgs& args, bool vector, cudaStream_t stream) {
  const int pieces = (args.cols + kThreads * kRowStep - 1) / (kThreads * kRowStep);
  return Launch(vector ? GateRow<kActivation, true> : GateRow<kActivation, false>,
                dim3(pieces, args.rows), dim3(kThreads), 0, stream, args);
}

}  // namespace

absl::Status LaunchGate(const GateArgs& args, cudaStream_t stream) {
  ShapeCheck check("gate");
  check.Between("rows", args.rows, 0, kMaxGridY).Between("cols", args.cols, 1, 1 << 29);
  check.AtLeast("the stride of gate_up", args.gate_up_stride, int64_t{2} * args.cols);
  check.NotNull("gate_up", args.gate_up);
  if (args.out_bf16 == nullptr) check.NotNull("out", args.out);
  if (args.out_bf16 != nullptr)
    check.AtLeast("the stride of out_bf16", args.out_bf16_stride, args.cols);
  if (args.out != nullptr) check.AtLeast("the stride of out", args.out_stride, args.cols);
  if (!check.status().ok() || args.rows == 0) return check.status();
  const bool vector = args.cols % 8 == 0 && args.gate_up_stride % 4 == 0 &&
                      IsAligned16(args.gate_up) && args.out_bf16_stride % 8 == 0 &&
                      IsAligned16(args.out_bf16) && args.out_stride % 4 == 0 &&
                      IsAligned16(args.out);
  switch (args.activation) {
    case GateActivation::kSilu:
      return LaunchFor<GateActivation::kSilu>(args, vector, stream);
    case GateActivation::kGeluTanh:
      return LaunchFor<GateActivation::kGeluTanh>(args, vector, stream);
  }
  return absl::UnimplementedError("gate: unknown activation");
}

}  // namespace octavo::cuda
