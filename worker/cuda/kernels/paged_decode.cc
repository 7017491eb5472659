#include "worker/cuda/kernels/paged_decode.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/cuda/kernels/attention_types.h"
#include "worker/cuda/kernels/paged_decode_shape.h"

namespace octavo::cuda {
namespace {

int32_t HeadTilesOf(const PagedKv& kv, int32_t num_heads) {
  return DecodeHeadTiles(kv.head_dim, num_heads / kv.num_kv_heads);
}

DecodeShape ShapeOf(const PagedKv& kv, int32_t num_heads) {
  const int32_t element_bytes = RowBytes(kv.dtype, kv.head_dim) / kv.head_dim;
  return DecodeShapeOf(kv.head_dim, element_bytes, kv.dtype == DType::kI8,
                       HeadTilesOf(kv, num_heads));
}

}  // namespace

absl::Status CheckPagedDecode(const PagedKv& kv, int32_t num_heads) {
  return CheckPagedShape("paged decode", kv, num_heads);
}

absl::Status LaunchPagedDecode(const PagedDecodeArgs& args, cudaStream_t stream) {
  OCTAVO_RETURN_IF_ERROR(CheckPagedArgs("paged decode", args, args.items));
  if (args.num_parts < 1 || args.runs == nullptr)
    return absl::InvalidArgumentError(
        absl::StrCat("paged decode: num_parts is ", args.num_parts,
                     "; it must be at least 1, with a run of items for each"));
  return LaunchForCache(args.kv.dtype,
                        [&]<DType kType>() { return LaunchDecodeOfType<kType>(args, stream); });
}

int32_t PagedDecodeHeadTiles(int32_t head_dim, int32_t group) {
  const int32_t heads = 8 * DecodeHeadTiles(head_dim, group);
  return (group + heads - 1) / heads;
}

int32_t PagedDecodeBlocksPerMultiprocessor(const PagedKv& kv, int32_t num_heads,
                                           int32_t shared_bytes_per_multiprocessor) {
  const DecodeShape shape = ShapeOf(kv, num_heads);
  constexpr int32_t kReservedBytes = 1024;  // of each block, by the system
  // More would share registers: 65,536 for 128 threads of up to 168 each.
  constexpr int32_t kMostBlocks = 3;
  return std::clamp(shared_bytes_per_multiprocessor / (shape.shared_bytes + kReservedBytes), 1,
                    kMostBlocks);
}

int32_t PagedDecodeSharedRows(const PagedKv& kv, int32_t num_heads) {
  return DecodeSharedRows(ShapeOf(kv, num_heads), HeadTilesOf(kv, num_heads),
                          num_heads / kv.num_kv_heads);
}

}  // namespace octavo::cuda
