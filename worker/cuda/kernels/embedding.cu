// Grid: (pieces of 1,024 columns, rows), blocks of 128 threads with 8 columns each: 2 bytes per
// element in, 4 out.
#include "worker/cuda/kernels/embedding.h"

#include "worker/cuda/kernels/launch.cuh"
#include "worker/cuda/kernels/row_access.cuh"
#include "worker/cuda/kernels/shape_check.h"

namespace octavo::cuda {
namespace {

constexpr int kThreads = 128;

}  // namespace

template <DType kType, bool kVector>
__global__ void __launch_bounds__(kThreads) EmbedRow(const __grid_constant__ EmbeddingArgs a) {
  const int c = static_cast<int>(blockIdx.x * kThreads + threadIdx.x) * kRowStep;
  const int left = a.cols - c;
  if (left <= 0) return;
  const int64_t row = blockIdx.y;
  int32_t token = a.token_ids[row];
  if (token < 0 && -1 - token < a.num_sampled) token = a.sampled[-1 - token];
  float v[kRowStep];
  const int32_t stored = token - a.first_token;
  if (token < 0 || token >= a.vocabulary) {
#pragma unroll
    for (int i = 0; i < kRowStep; ++i) v[i] = __uint_as_float(0x7fc00000u);
  } else if (stored >= 0 && stored < a.table_rows) {
    LoadHalves<kType, kVector>(a.table + stored * a.table_stride + c, left, v);
  } else {
#pragma unroll
    for (int i = 0; i < kRowStep; ++i) v[i] = 0.0f;
  }
#pragma unroll
  for (int i = 0; i < kRowStep; ++i) v[i] *= a.scale;
  StoreFloats<kVector>(a.out + row * a.out_stride + c, left, v);
}

namespace {

template <DType kType>
absl::Status LaunchFor(const EmbeddingArgs& args, bool vector, cudaStream_t stream) {
  const int pieces = (args.cols + kThreads * kRowStep - 1) / (kThreads * kRowStep);
  return Launch(vector ? EmbedRow<kType, true> : EmbedRow<kType, false>, dim3(pieces, args.rows),
                dim3(kThreads), 0, stream, args);
}

}  // namespace

absl::Status LaunchEmbedding(const EmbeddingArgs& args, cudaStream_t stream) {
  ShapeCheck check("embedding");
  check.Between("rows", args.rows, 0, kMaxGridY).Between("cols", args.cols, 1, 1 << 30);
  check.AtLeast("rows of the table", args.table_rows, 1).NotNull("token_ids", args.token_ids);
  check.Between("first token", args.first_token, 0, int64_t{args.vocabulary} - args.table_rows);
  check.AtLeast("the stride of the table", args.table_stride, args.cols);
  check.NotNull("the table", args.table);
  check.AtLeast("the stride of out", args.out_stride, args.cols).NotNull("out", args.out);
  if (!check.status().ok() || args.rows == 0) return check.status();
  const bool vector = args.cols % 8 == 0 && args.table_stride % 8 == 0 &&
                      args.out_stride % 4 == 0 && IsAligned16(args.table) && IsAligned16(args.out);
  if (args.type == DType::kBF16) return LaunchFor<DType::kBF16>(args, vector, stream);
  if (args.type == DType::kF16) return LaunchFor<DType::kF16>(args, vector, stream);
  return absl::UnimplementedError("embedding: the table is neither bf16 nor fp16");
}

}  // namespace octavo::cuda
