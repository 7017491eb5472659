// Grid: copies x pieces of 16 KiB; blocks of 256 threads with four 16-byte loads each, all issued
// before the first store: 16 KiB in flight per block of threads. A block of Llama-3-8B (2 MiB) is
// 128 pieces, one wave of an H200.
#include "worker/cuda/kernels/block_copy.h"

#include <algorithm>

#include "worker/cuda/kernels/launch.cuh"
#include "worker/cuda/kernels/shape_check.h"

namespace octavo::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kLoads = 4;
constexpr int64_t kPieceBytes = int64_t{kThreads} * kLoads * 16;

}  // namespace

__global__ void __launch_bounds__(kThreads)
    CopyPieces(const __grid_constant__ BlockCopyArgs a, int32_t pieces) {
  const BlockCopy copy = a.copies[blockIdx.x / pieces];
  if (copy.source == copy.target) return;
  const int64_t first = blockIdx.x % pieces * kPieceBytes + threadIdx.x * 16;
  const std::byte* from = a.pool + copy.source * a.block_bytes;
  std::byte* to = a.pool + copy.target * a.block_bytes;
  uint4 words[kLoads];
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    const int64_t at = first + int64_t{i} * kThreads * 16;
    if (at < a.block_bytes) words[i] = __ldcs(reinterpret_cast<const uint4*>(from + at));
  }
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    const int64_t at = first + int64_t{i} * kThreads * 16;
    if (at < a.block_bytes) *reinterpret_cast<uint4*>(to + at) = words[i];
  }
}

absl::Status LaunchBlockCopy(const BlockCopyArgs& args, cudaStream_t stream) {
  ShapeCheck check("block_copy");
  check.Between("block_bytes", args.block_bytes, 16, int64_t{1} << 40);
  check.MultipleOf("block_bytes", args.block_bytes, 16).Aligned("the pool", args.pool, 16);
  const int64_t pieces = std::max<int64_t>(1, (args.block_bytes + kPieceBytes - 1) / kPieceBytes);
  check.Between("copies", args.count, 0, (int64_t{1} << 31) / pieces - 1);
  check.NotNull("copies", args.copies);
  if (!check.status().ok() || args.count == 0) return check.status();
  return Launch(CopyPieces, dim3(static_cast<uint32_t>(args.count * pieces)), dim3(kThreads), 0,
                stream, args, static_cast<int32_t>(pieces));
}

}  // namespace octavo::cuda
