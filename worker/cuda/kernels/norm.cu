// Grid: one block per row, of up to 512 threads, each with 8 elements per step. A row is read
// twice, the second time from L1 or L2: 4 bytes per element in, 2 (bf16) or 8 (read and add fp32)
// out. In flight: 32 bytes per thread, 16 KiB per block of 512, up to 64 KiB per multiprocessor,
// against the 25 KiB that HBM's latency asks for. AddNormedRow with a next norm writes 2 bytes more
// and reads its own sums again, from L1; apart, the next norm would read 4 from memory.
#include "worker/cuda/kernels/norm.h"

#include <algorithm>

#include "worker/cuda/kernels/launch.cuh"
#include "worker/cuda/kernels/row_access.cuh"
#include "worker/cuda/kernels/shape_check.h"
#include "worker/cuda/kernels/smem.cuh"
#include "worker/cuda/kernels/warp.cuh"

namespace octavo::cuda {
namespace {

constexpr int kMaxThreads = 512;

// 1 / sqrt(mean(x^2) + eps), in every thread of the block. warps: shared, one float per warp.
template <bool kVector>
__device__ __forceinline__ float InverseRms(const float* x, int cols, float eps, float* warps) {
  float squares = 0.0f;
  const int step = static_cast<int>(blockDim.x) * kRowStep;
  for (int c = static_cast<int>(threadIdx.x) * kRowStep; c < cols; c += step) {
    float v[kRowStep];
    LoadFloats<kVector>(x + c, cols - c, v);
#pragma unroll
    for (int i = 0; i < kRowStep; ++i) squares = fmaf(v[i], v[i], squares);
  }
  return 1.0f / sqrtf(BlockSum(squares, warps) / static_cast<float>(cols) + eps);
}

}  // namespace

template <bool kVector>
__global__ void __launch_bounds__(kMaxThreads) RmsNormRow(const __grid_constant__ RmsNormArgs a) {
  Smem smem;
  float* warps = smem.take<float>(kMaxThreads / 32);
  const int64_t row = blockIdx.x;
  const float* x = a.x + (a.row_ids == nullptr ? row : a.row_ids[row]) * a.x_stride;
  uint16_t* out = a.out + row * a.out_stride;
  const bool normed = a.weight != nullptr;  // the same in every thread
  const float scale = normed ? InverseRms<kVector>(x, a.cols, a.eps, warps) : 1.0f;
  const int step = static_cast<int>(blockDim.x) * kRowStep;
  for (int c = static_cast<int>(threadIdx.x) * kRowStep; c < a.cols; c += step) {
    float v[kRowStep], weight[kRowStep];
    LoadFloats<kVector>(x + c, a.cols - c, v);
    if (normed) {
      LoadFloats<kVector>(a.weight + c, a.cols - c, weight);
#pragma unroll
      for (int i = 0; i < kRowStep; ++i) v[i] = v[i] * scale * weight[i];
    }
    StoreBf16<kVector>(out + c, a.cols - c, v);
  }
}

template <bool kVector>
__global__ void __launch_bounds__(kMaxThreads)
    AddNormedRow(const __grid_constant__ AddNormedArgs a) {
  Smem smem;
  float* warps = smem.take<float>(2 * kMaxThreads / 32);  // of two sums
  const float* x = a.x + blockIdx.x * a.x_stride;
  float* out = a.out + blockIdx.x * a.out_stride;
  const float scale = InverseRms<kVector>(x, a.cols, a.eps, warps);
  float squares = 0.0f;  // of the sums
  const int step = static_cast<int>(blockDim.x) * kRowStep;
  for (int c = static_cast<int>(threadIdx.x) * kRowStep; c < a.cols; c += step) {
    const int left = a.cols - c;
    float v[kRowStep], weight[kRowStep], sum[kRowStep];
    LoadFloats<kVector>(x + c, left, v);
    LoadFloats<kVector>(a.weight + c, left, weight);
    LoadFloats<kVector>(out + c, left, sum);
#pragma unroll
    for (int i = 0; i < kRowStep; ++i) {
      sum[i] += v[i] * scale * weight[i];
      squares = fmaf(sum[i], sum[i], squares);
    }
    StoreFloats<kVector>(out + c, left, sum);
  }
  if (a.next_weight == nullptr) return;  // the same in every thread
  const float next_scale =
      1.0f /
      sqrtf(BlockSum(squares, warps + kMaxThreads / 32) / static_cast<float>(a.cols) + a.next_eps);
  uint16_t* next = a.next_out + blockIdx.x * a.next_stride;
  for (int c = static_cast<int>(threadIdx.x) * kRowStep; c < a.cols; c += step) {
    float v[kRowStep], weight[kRowStep];
    LoadFloats<kVector>(out + c, a.cols - c, v);  // what this thread has stored there
    LoadFloats<kVector>(a.next_weight + c, a.cols - c, weight);
#pragma unroll
    for (int i = 0; i < kRowStep; ++i) v[i] = v[i] * next_scale * weight[i];
    StoreBf16<kVector>(next + c, a.cols - c, v);
  }
}

namespace {

// A block's threads: one step of the row where that is possible.
int ThreadsFor(int cols) {
  const int steps = (cols + kRowStep - 1) / kRowStep;
  return std::clamp((steps + 31) / 32 * 32, 32, kMaxThreads);
}

constexpr size_t kSharedBytes = kMaxThreads / 32 * sizeof(float);

}  // namespace

absl::Status LaunchRmsNorm(const RmsNormArgs& args, cudaStream_t stream) {
  ShapeCheck check("rms_norm");
  check.AtLeast("rows", args.rows, 0).AtLeast("cols", args.cols, 1);
  check.AtLeast("the stride of x", args.x_stride, args.cols).NotNull("x", args.x);
  check.AtLeast("the stride of out", args.out_stride, args.cols).NotNull("out", args.out);
  if (!check.status().ok() || args.rows == 0) return check.status();
  const bool vector = args.cols % 8 == 0 && args.x_stride % 4 == 0 && args.out_stride % 8 == 0 &&
                      IsAligned16(args.x) && IsAligned16(args.out) && IsAligned16(args.weight);
  return Launch(vector ? RmsNormRow<true> : RmsNormRow<false>, dim3(args.rows),
                dim3(ThreadsFor(args.cols)), kSharedBytes, stream, args);
}

absl::Status LaunchAddNormed(const AddNormedArgs& args, cudaStream_t stream) {
  ShapeCheck check("add_normed");
  check.AtLeast("rows", args.rows, 0).AtLeast("cols", args.cols, 1);
  check.AtLeast("the stride of x", args.x_stride, args.cols).NotNull("x", args.x);
  check.AtLeast("the stride of out", args.out_stride, args.cols).NotNull("out", args.out);
  check.NotNull("weight", args.weight);
  if (args.next_weight != nullptr)
    check.AtLeast("the stride of next_out", args.next_stride, args.cols)
        .NotNull("next_out", args.next_out);
  if (!check.status().ok() || args.rows == 0) return check.status();
  const bool vector = args.cols % 8 == 0 && args.x_stride % 4 == 0 && args.out_stride % 4 == 0 &&
                      args.next_stride % 8 == 0 && IsAligned16(args.x) && IsAligned16(args.out) &&
                      IsAligned16(args.weight) && IsAligned16(args.next_weight) &&
                      IsAligned16(args.next_out);
  return Launch(vector ? AddNormedRow<true> : AddNormedRow<false>, dim3(args.rows),
                dim3(ThreadsFor(args.cols)), 2 * kSharedBytes, stream, args);
}

}  // namespace octavo::cuda
