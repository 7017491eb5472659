// Grid: (8 groups of columns, units of 16 rows); a warp has one unit, a lane 8 columns of two rows,
// which it stores as 16 bytes each. Per weight: 0.56 to 1.13 bytes in, 2 out. In flight: the 8 or
// 16 bytes of each thread and a scale, 4 to 8 KB a block of 256 threads, 8 blocks on a
// multiprocessor.
#include "worker/cuda/kernels/dequantize.h"

#include "worker/cuda/kernels/launch.cuh"
#include "worker/cuda/kernels/ptx.cuh"
#include "worker/cuda/kernels/quant_codes.cuh"
#include "worker/cuda/kernels/shape_check.h"

namespace octavo::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

// Of the columns 8t .. 8t + 7 of row `half` (0: g, 1: g + 8), scaled.
template <int kBits, bool kMin>
__device__ __forceinline__ uint4 RowOf(const uint32_t (&words)[QuantCodes<kBits, kMin>::kLaneWords],
                                       int half, float scale, float min) {
  uint32_t packed[4];
#pragma unroll
  for (int f = 0; f < 2; ++f) {
    uint32_t codes[4];
    QuantCodes<kBits, kMin>::Widen(words, f, codes);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float2 pair = ptx::unpack_bf16(codes[2 * i + half]);
      packed[2 * f + i] = ptx::pack_bf16(fmaf(pair.x, scale, min), fmaf(pair.y, scale, min));
    }
  }
  return make_uint4(packed[0], packed[1], packed[2], packed[3]);
}

}  // namespace

template <int kBits, bool kMin>
__global__ void __launch_bounds__(kThreads)
    DequantizeUnits(const __grid_constant__ DequantizeArgs a) {
  using Codes = QuantCodes<kBits, kMin>;
  const int groups = a.cols / kQuantGroup;
  const int group = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
  if (group >= groups) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::byte* unit =
      a.weight + QuantUnit(blockIdx.y, group, QuantChunks(a.cols)) * Codes::kUnitBytes;
  uint32_t words[Codes::kLaneWords];
  Codes::Load(unit, lane, words);
  float scale[2], min[2];
  Codes::LoadScales(unit, lane / 4, scale, min);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t row = int64_t{blockIdx.y} * kQuantTile + 8 * half + lane / 4;
    if (row < a.rows)
      *reinterpret_cast<uint4*>(a.out + row * a.out_stride + group * kQuantGroup + lane % 4 * 8) =
          RowOf<kBits, kMin>(words, half, scale[half], min[half]);
  }
}

namespace {

template <int kBits, bool kMin>
absl::Status LaunchFor(const DequantizeArgs& args, cudaStream_t stream) {
  const int groups = args.cols / kQuantGroup;
  return Launch(DequantizeUnits<kBits, kMin>,
                dim3((groups + kWarps - 1) / kWarps, (args.rows + kQuantTile - 1) / kQuantTile),
                dim3(kThreads), 0, stream, args);
}

}  // namespace

absl::Status LaunchDequantize(const DequantizeArgs& args, cudaStream_t stream) {
  ShapeCheck check("dequantize");
  check.Between("rows", args.rows, 0, kMaxGridY * kQuantTile);
  check.Between("cols", args.cols, kQuantGroup, 1 << 30);
  check.MultipleOf("cols", args.cols, kQuantGroup);
  check.AtLeast("the stride of out", args.out_stride, args.cols);
  check.MultipleOf("the stride of out", args.out_stride, 8);
  check.Aligned("the weight", args.weight, 16).Aligned("out", args.out, 16);
  if (!check.status().ok() || args.rows == 0) return check.status();
  if (args.format.bits == 4)
    return args.format.has_min ? LaunchFor<4, true>(args, stream)
                               : LaunchFor<4, false>(args, stream);
  if (args.format.bits == 8)
    return args.format.has_min ? LaunchFor<8, true>(args, stream)
                               : LaunchFor<8, false>(args, stream);
  return absl::UnimplementedError("dequantize: weights have neither 4 nor 8 bits");
}

}  // namespace octavo::cuda
