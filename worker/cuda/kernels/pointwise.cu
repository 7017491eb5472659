// Grid: (pieces of 1,024 columns, rows), blocks of 128 threads with 8 columns each; 8 bytes per
// element, 32 in flight per thread. ScaleSumsRow reads what it adds to as well: 12 and 64.
#include "worker/cuda/kernels/pointwise.h"

#include "worker/cuda/kernels/launch.cuh"
#include "worker/cuda/kernels/row_access.cuh"
#include "worker/cuda/kernels/shape_check.h"

namespace octavo::cuda {
namespace {

constexpr int kThreads = 128;

dim3 GridFor(int rows, int cols) {
  return dim3((cols + kThreads * kRowStep - 1) / (kThreads * kRowStep), rows);
}

}  // namespace

template <bool kVector>
__global__ void __launch_bounds__(kThreads) SoftcapRow(const __grid_constant__ SoftcapArgs a) {
  const int c = static_cast<int>(blockIdx.x * kThreads + threadIdx.x) * kRowStep;
  if (c >= a.cols) return;
  float* x = a.x + blockIdx.y * a.stride + c;
  float v[kRowStep];
  LoadFloats<kVector>(x, a.cols - c, v);
#pragma unroll
  for (int i = 0; i < kRowStep; ++i) v[i] = a.cap * tanhf(v[i] / a.cap);
  StoreFloats<kVector>(x, a.cols - c, v);
}

template <bool kVector>
__global__ void __launch_bounds__(kThreads) AddBiasRow(const __grid_constant__ AddBiasArgs a) {
  const int c = static_cast<int>(blockIdx.x * kThreads + threadIdx.x) * kRowStep;
  if (c >= a.cols) return;
  float* x = a.x + blockIdx.y * a.stride + c;
  float v[kRowStep], bias[kRowStep];
  LoadFloats<kVector>(x, a.cols - c, v);
  LoadFloats<kVector>(a.bias + c, a.cols - c, bias);
#pragma unroll
  for (int i = 0; i < kRowStep; ++i) v[i] += bias[i];
  StoreFloats<kVector>(x, a.cols - c, v);
}

template <bool kVector>
__global__ void __launch_bounds__(kThreads) ScaleSumsRow(const __grid_constant__ ScaleSumsArgs a) {
  const int c = static_cast<int>(blockIdx.x * kThreads + threadIdx.x) * kRowStep;
  const int left = a.cols - c;
  if (left <= 0) return;
  float* out = a.out + blockIdx.y * a.out_stride + c;
  float v[kRowStep], other[kRowStep] = {}, scales[kRowStep];
  LoadFloats<kVector>(a.x + blockIdx.y * a.x_stride + c, left, v);
  if (a.add) LoadFloats<kVector>(out, left, other);
  LoadFloats<kVector>(a.col_scales + c, left, scales);
  const float row_scale = a.row_scales[blockIdx.y];
#pragma unroll
  for (int i = 0; i < kRowStep; ++i) v[i] = fmaf(v[i], row_scale * scales[i], other[i]);
  if (a.bias != nullptr) {
    LoadFloats<kVector>(a.bias + c, left, other);
#pragma unroll
    for (int i = 0; i < kRowStep; ++i) v[i] += other[i];
  }
  StoreFloats<kVector>(out, left, v);
}

namespace {

template <typename Args>
absl::Status CheckRows(absl::string_view kernel, const Args& args) {
  ShapeCheck check(kernel);
  check.Between("rows", args.rows, 0, kMaxGridY).Between("cols", args.cols, 1, 1 << 30);
  check.AtLeast("the stride of x", args.stride, args.cols).NotNull("x", args.x);
  return check.status();
}

template <typename Args>
bool IsVector(const Args& args) {
  return args.cols % 8 == 0 && args.stride % 4 == 0 && IsAligned16(args.x);
}

}  // namespace

absl::Status LaunchSoftcap(const SoftcapArgs& args, cudaStream_t stream) {
  absl::Status status = CheckRows("softcap", args);
  if (status.ok()) status = ShapeCheck("softcap").Positive("cap", args.cap).status();
  if (!status.ok() || args.rows == 0) return status;
  return Launch(IsVector(args) ? SoftcapRow<true> : SoftcapRow<false>,
                GridFor(args.rows, args.cols), dim3(kThreads), 0, stream, args);
}

absl::Status LaunchAddBias(const AddBiasArgs& args, cudaStream_t stream) {
  absl::Status status = CheckRows("add_bias", args);
  if (status.ok()) status = ShapeCheck("add_bias").NotNull("bias", args.bias).status();
  if (!status.ok() || args.rows == 0) return status;
  return Launch(IsVector(args) && IsAligned16(args.bias) ? AddBiasRow<true> : AddBiasRow<false>,
                GridFor(args.rows, args.cols), dim3(kThreads), 0, stream, args);
}

absl::Status LaunchScaleSums(const ScaleSumsArgs& args, cudaStream_t stream) {
  ShapeCheck check("scale_sums");
  check.Between("rows", args.rows, 0, kMaxGridY).Between("cols", args.cols, 1, 1 << 30);
  check.AtLeast("the stride of x", args.x_stride, args.cols).NotNull("x", args.x);
  check.AtLeast("the stride of out", args.out_stride, args.cols).NotNull("out", args.out);
  check.NotNull("row_scales", args.row_scales).NotNull("col_scales", args.col_scales);
  if (!check.status().ok() || args.rows == 0) return check.status();
  const bool vector = args.cols % 8 == 0 && args.x_stride % 4 == 0 && args.out_stride % 4 == 0 &&
                      IsAligned16(args.x) && IsAligned16(args.out) &&
                      IsAligned16(args.col_scales) && IsAligned16(args.bias);
  return Launch(vector ? ScaleSumsRow<true> : ScaleSumsRow<false>, GridFor(args.rows, args.cols),
                dim3(kThreads), 0, stream, args);
}

}  // namespace octavo::cuda
