#include "worker/cuda/kernels/quant_gemm.h"

#include <algorithm>

#include "worker/cuda/kernels/launch.cuh"
#include "worker/cuda/kernels/quant_gemm.cuh"
#include "worker/cuda/kernels/shape_check.h"

namespace octavo::cuda {
namespace {

constexpr int32_t kMaxSplits = 8;

int32_t CeilDiv(int32_t a, int32_t b) { return (a + b - 1) / b; }

// Of threads, without splits.
int32_t NumBlocks(int32_t rows, int32_t out_features, int32_t batch_tiles) {
  const int tiles = QuantGemmShapeOf(4, false, batch_tiles).tiles;  // the same in every format
  return CeilDiv(rows, 8 * batch_tiles) * CeilDiv(out_features, tiles * kQuantTile);
}

// Blocks that fill a card with some eight warps on each multiprocessor.
int32_t FullGrid(int32_t batch_tiles, int32_t multiprocessors) {
  return batch_tiles == 4 ? 2 * multiprocessors : multiprocessors;
}

template <int kBits, bool kMin, int kBatch>
absl::Status LaunchFor(const QuantGemmParams& params, cudaStream_t stream) {
  using Kernel = QuantGemmKernel<kBits, kMin, kBatch>;
  const int32_t blocks = NumBlocks(params.args.rows, params.args.out_features, kBatch);
  return Launch(QuantGemm<kBits, kMin, kBatch>, dim3(blocks, params.splits), dim3(Kernel::kThreads),
                Kernel::kShape.shared_bytes, stream, params);
}

template <int kBits, bool kMin>
absl::Status LaunchFor(const QuantGemmParams& params, int32_t batch_tiles, cudaStream_t stream) {
  switch (batch_tiles) {
    case 1:
      return LaunchFor<kBits, kMin, 1>(params, stream);
    case 2:
      return LaunchFor<kBits, kMin, 2>(params, stream);
    case 4:
      return LaunchFor<kBits, kMin, 4>(params, stream);
  }
  return absl::UnimplementedError("quant_gemm: batch_tiles is none of 1, 2 and 4");
}

}  // namespace

QuantGemmPlan PlanQuantGemm(int32_t rows, int32_t in_features, int32_t out_features,
                            int32_t multiprocessors) {
  QuantGemmPlan plan;
  plan.batch_tiles = rows <= 8 ? 1 : rows <= 16 ? 2 : 4;
  const QuantGemmShape shape = QuantGemmShapeOf(4, false, plan.batch_tiles);
  const int32_t blocks = std::max(1, NumBlocks(rows, out_features, plan.batch_tiles));
  const int32_t chunks = CeilDiv(in_features, kQuantChunkGroups * kQuantGroup);
  // A split leaves each warp two chunks at least: less would cost more to merge than it saves.
  const int32_t most = std::clamp(chunks / (2 * shape.warps), 1, kMaxSplits);
  plan.splits = std::clamp(FullGrid(plan.batch_tiles, multiprocessors) / blocks, 1, most);
  return plan;
}

int64_t QuantPartialElements(int32_t multiprocessors) {
  int64_t most = 0;
  for (const int32_t batch_tiles : {1, 2, 4}) {
    const int tiles = QuantGemmShapeOf(4, false, batch_tiles).tiles;
    most = std::max<int64_t>(most, int64_t{FullGrid(batch_tiles, multiprocessors)} * tiles *
                                       kQuantTile * batch_tiles * 8);
  }
  return most;
}

int64_t QuantArrivals(int32_t multiprocessors) { return FullGrid(4, multiprocessors); }

absl::Status LaunchQuantGemm(const QuantGemmArgs& args, const QuantGemmPlan& plan,
                             const QuantGemmWorkspace& workspace, cudaStream_t stream) {
  ShapeCheck check("quant_gemm");
  check.Between("rows", args.rows, 0, kMaxQuantRows);
  check.Between("in_features", args.in_features, kQuantGroup, 1 << 30);
  check.MultipleOf("in_features", args.in_features, kQuantGroup);
  check.Between("out_features", args.out_features, 1, 1 << 24);
  check.AtLeast("the stride of x", args.x_stride, args.in_features);
  check.MultipleOf("the stride of x", args.x_stride, 8);
  check.AtLeast("the stride of out", args.out_stride, args.out_features);
  check.Aligned("x", args.x, 16).Aligned("the weight", args.weight, 16).NotNull("out", args.out);
  check.Between("splits", plan.splits, 1, kMaxSplits);
  if (plan.splits > 1)
    check.NotNull("partials", workspace.partials).NotNull("arrivals", workspace.arrivals);
  if (!check.status().ok() || args.rows == 0) return check.status();
  const QuantGemmParams params = {args, workspace, plan.splits};
  if (args.format.bits == 4)
    return args.format.has_min ? LaunchFor<4, true>(params, plan.batch_tiles, stream)
                               : LaunchFor<4, false>(params, plan.batch_tiles, stream);
  if (args.format.bits == 8)
    return args.format.has_min ? LaunchFor<8, true>(params, plan.batch_tiles, stream)
                               : LaunchFor<8, false>(params, plan.batch_tiles, stream);
  return absl::UnimplementedError("quant_gemm: weights have neither 4 nor 8 bits");
}

}  // namespace octavo::cuda
