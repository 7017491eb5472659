// Grid: one block per row, of up to 512 threads, each with 8 elements per step. A row is read
// twice, the second time from L1 or L2: 4 bytes per element in, 2 (bf16, fp16), 1 (e4m3) or 8 (read
// and add fp32) out. In flight: 32 bytes per thread, 16 KiB per block of 512, up to 64 KiB per
// multiprocessor, against the 25 KiB that HBM's latency asks for. AddNormedRow with a next norm
// writes 2 bytes (1) more and reads its own sums again, from L1; apart, the next norm would read 4
// from memory.
//
// e4m3 needs no pass of its own: the norm multiplies a row by one positive number, so the pass that
// sums squares also finds the largest |x weight|, and the codes are x weight times 448 over that.
// The norm's number only enters the row's scale.
#include "worker/cuda/kernels/norm.h"

#include <algorithm>

#include "worker/cuda/kernels/launch.cuh"
#include "worker/cuda/kernels/row_access.cuh"
#include "worker/cuda/kernels/row_scale.cuh"
#include "worker/cuda/kernels/shape_check.h"
#include "worker/cuda/kernels/smem.cuh"
#include "worker/cuda/kernels/warp.cuh"

namespace octavo::cuda {
namespace {

constexpr int kMaxThreads = 512;
constexpr int kMaxWarps = kMaxThreads / 32;

__device__ __forceinline__ float InverseRms(float squares, int cols, float eps) {
  return 1.0f / sqrtf(squares / static_cast<float>(cols) + eps);
}

// Of a row: the sum of x^2, and for e4m3 the largest |x weight|. weight: nullptr for ones.
template <DType kType, bool kVector>
__device__ __forceinline__ void Survey(const float* x, const float* weight, int cols,
                                       float& squares, uint32_t& largest) {
  const int step = static_cast<int>(blockDim.x) * kRowStep;
  for (int c = static_cast<int>(threadIdx.x) * kRowStep; c < cols; c += step) {
    float v[kRowStep];
    LoadFloats<kVector>(x + c, cols - c, v);
#pragma unroll
    for (int i = 0; i < kRowStep; ++i) squares = fmaf(v[i], v[i], squares);
    if constexpr (kType == DType::kF8E4M3) {
      if (weight != nullptr) {  // the same in every thread
        float w[kRowStep];
        LoadFloats<kVector>(weight + c, cols - c, w);
#pragma unroll
        for (int i = 0; i < kRowStep; ++i) v[i] *= w[i];
      }
      WidenRange(v, largest);
    }
  }
}

// out = x weight factor, rounded.
template <DType kType, bool kVector>
__device__ __forceinline__ void StoreNormed(const float* x, const float* weight, int cols,
                                            float factor, void* out) {
  const int step = static_cast<int>(blockDim.x) * kRowStep;
  for (int c = static_cast<int>(threadIdx.x) * kRowStep; c < cols; c += step) {
    float v[kRowStep], w[kRowStep];
    LoadFloats<kVector>(x + c, cols - c, v);
    if (weight != nullptr) {  // the same in every thread
      LoadFloats<kVector>(weight + c, cols - c, w);
#pragma unroll
      for (int i = 0; i < kRowStep; ++i)
        v[i] = kType == DType::kF8E4M3 ? v[i] * w[i] * factor : v[i] * factor * w[i];
    } else if (kType == DType::kF8E4M3) {
#pragma unroll
      for (int i = 0; i < kRowStep; ++i) v[i] *= factor;
    }
    StoreRounded<kType, kVector>(out, c, cols - c, v);
  }
}

template <DType kType>
__device__ __forceinline__ void* RowOf(void* rows, int64_t offset) {
  return static_cast<char*>(rows) + offset * (kType == DType::kF8E4M3 ? 1 : 2);
}

}  // namespace

template <DType kType, bool kVector>
__global__ void __launch_bounds__(kMaxThreads) RmsNormRow(const __grid_constant__ RmsNormArgs a) {
  Smem smem;
  float* warps = smem.take<float>(kMaxWarps);
  uint32_t* peaks = smem.take<uint32_t>(kMaxWarps);
  const int64_t row = blockIdx.x;
  const float* x = a.x + (a.row_ids == nullptr ? row : a.row_ids[row]) * a.x_stride;
  void* out = RowOf<kType>(a.out, row * a.out_stride);
  const bool normed = a.weight != nullptr;  // the same in every thread
  float squares = 0.0f, factor = 1.0f;
  uint32_t largest = 0;
  if (normed || kType == DType::kF8E4M3)
    Survey<kType, kVector>(x, a.weight, a.cols, squares, largest);
  if (normed) factor = InverseRms(BlockSum(squares, warps), a.cols, a.eps);
  if constexpr (kType == DType::kF8E4M3) {
    const float range = RangeOf(BlockMax(largest, peaks));
    if (threadIdx.x == 0) a.out_scales[row] = range / kLargestE4m3 * factor;
    factor = kLargestE4m3 / range;
  }
  StoreNormed<kType, kVector>(x, a.weight, a.cols, factor, out);
}

template <DType kType, bool kVector>
__global__ void __launch_bounds__(kMaxThreads)
    AddNormedRow(const __grid_constant__ AddNormedArgs a) {
  Smem smem;
  float* warps = smem.take<float>(2 * kMaxWarps);  // of two sums
  uint32_t* peaks = smem.take<uint32_t>(kMaxWarps);
  const float* x = a.x + blockIdx.x * a.x_stride;
  float* out = a.out + blockIdx.x * a.out_stride;
  float x_squares = 0.0f, squares = 0.0f;  // of x, of the sums
  uint32_t largest = 0;
  Survey<DType::kBF16, kVector>(x, nullptr, a.cols, x_squares, largest);
  const float scale = InverseRms(BlockSum(x_squares, warps), a.cols, a.eps);
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
    if constexpr (kType == DType::kF8E4M3) {
      LoadFloats<kVector>(a.next_weight + c, left, weight);
#pragma unroll
      for (int i = 0; i < kRowStep; ++i) sum[i] *= weight[i];
      WidenRange(sum, largest);
    }
  }
  if (a.next_weight == nullptr) return;  // the same in every thread
  float factor = InverseRms(BlockSum(squares, warps + kMaxWarps), a.cols, a.next_eps);
  if constexpr (kType == DType::kF8E4M3) {
    const float range = RangeOf(BlockMax(largest, peaks));
    if (threadIdx.x == 0) a.next_scales[blockIdx.x] = range / kLargestE4m3 * factor;
    factor = kLargestE4m3 / range;
  }
  // Reads what this thread has stored there.
  StoreNormed<kType, kVector>(out, a.next_weight, a.cols, factor,
                              RowOf<kType>(a.next_out, blockIdx.x * a.next_stride));
}

namespace {

// A block's threads: one step of the row where that is possible.
int ThreadsFor(int cols) {
  const int steps = (cols + kRowStep - 1) / kRowStep;
  return std::clamp((steps + 31) / 32 * 32, 32, kMaxThreads);
}

constexpr size_t kSharedBytes = kMaxWarps * (sizeof(float) + sizeof(uint32_t));

template <DType kType>
absl::Status LaunchFor(const RmsNormArgs& args, bool vector, cudaStream_t stream) {
  return Launch(vector ? RmsNormRow<kType, true> : RmsNormRow<kType, false>, dim3(args.rows),
                dim3(ThreadsFor(args.cols)), kSharedBytes, stream, args);
}

template <DType kType>
absl::Status LaunchFor(const AddNormedArgs& args, bool vector, cudaStream_t stream) {
  return Launch(vector ? AddNormedRow<kType, true> : AddNormedRow<kType, false>, dim3(args.rows),
                dim3(ThreadsFor(args.cols)), kSharedBytes + kMaxWarps * sizeof(float), stream,
                args);
}

template <typename Args>
absl::Status LaunchOfType(DType type, const Args& args, bool vector, cudaStream_t stream) {
  switch (type) {
    case DType::kBF16:
      return LaunchFor<DType::kBF16>(args, vector, stream);
    case DType::kF16:
      return LaunchFor<DType::kF16>(args, vector, stream);
    case DType::kF8E4M3:
      return LaunchFor<DType::kF8E4M3>(args, vector, stream);
    default:
      return absl::UnimplementedError("norm: rows are rounded to bf16, fp16 or fp8_e4m3");
  }
}

}  // namespace

absl::Status LaunchRmsNorm(const RmsNormArgs& args, cudaStream_t stream) {
  ShapeCheck check("rms_norm");
  check.AtLeast("rows", args.rows, 0).AtLeast("cols", args.cols, 1);
  check.AtLeast("the stride of x", args.x_stride, args.cols).NotNull("x", args.x);
  check.AtLeast("the stride of out", args.out_stride, args.cols).NotNull("out", args.out);
  if (args.type == DType::kF8E4M3) check.NotNull("out_scales", args.out_scales);
  if (!check.status().ok() || args.rows == 0) return check.status();
  const bool vector = args.cols % 8 == 0 && args.x_stride % 4 == 0 && args.out_stride % 8 == 0 &&
                      IsAligned16(args.x) && IsAligned16(args.out) && IsAligned16(args.weight);
  return LaunchOfType(args.type, args, vector, stream);
}

absl::Status LaunchAddNormed(const AddNormedArgs& args, cudaStream_t stream) {
  ShapeCheck check("add_normed");
  check.AtLeast("rows", args.rows, 0).AtLeast("cols", args.cols, 1);
  check.AtLeast("the stride of x", args.x_stride, args.cols).NotNull("x", args.x);
  check.AtLeast("the stride of out", args.out_stride, args.cols).NotNull("out", args.out);
  check.NotNull("weight", args.weight);
  const bool next = args.next_weight != nullptr;
  if (next)
    check.AtLeast("the stride of next_out", args.next_stride, args.cols)
        .NotNull("next_out", args.next_out);
  if (next && args.next_type == DType::kF8E4M3) check.NotNull("next_scales", args.next_scales);
  if (!check.status().ok() || args.rows == 0) return check.status();
  const bool vector = args.cols % 8 == 0 && args.x_stride % 4 == 0 && args.out_stride % 4 == 0 &&
                      args.next_stride % 8 == 0 && IsAligned16(args.x) && IsAligned16(args.out) &&
                      IsAligned16(args.weight) && IsAligned16(args.next_weight) &&
                      IsAligned16(args.next_out);
  return LaunchOfType(next ? args.next_type : DType::kBF16, args, vector, stream);
}

}  // namespace octavo::cuda
