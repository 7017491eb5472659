#include "worker/cuda/kernels/paged_decode.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/cuda/kernels/attention_types.h"
#include "worker/cuda/kernels/paged_decode_shape.h"
#include "worker/cuda/kernels/paged_shape_check.h"

namespace octavo::cuda {

absl::Status CheckPagedDecode(const PagedKv& kv, int32_t num_heads) {
  return CheckPagedShape("paged decode", kv, num_heads);
}

absl::Status LaunchPagedDecode(const PagedDecodeArgs& args, cudaStream_t stream) {
  const AttentionRows rows = {args.q,     args.q_stride, args.out,           args.out_stride,
                              args.scale, args.softcap,  args.sliding_window};
  OCTAVO_RETURN_IF_ERROR(
      CheckPagedRows("paged decode", args.kv, args.num_heads, rows, args.block_tables, args.items));
  if (args.num_parts < 1 || args.runs == nullptr)
    return absl::InvalidArgumentError(
        absl::StrCat("paged decode: num_parts is ", args.num_parts,
                     "; it must be at least 1, with a run of items for each"));
  switch (args.kv.dtype) {
    case DType::kF16:
      return LaunchDecodeOfType<DType::kF16>(args, stream);
    case DType::kI8:
      return LaunchDecodeOfType<DType::kI8>(args, stream);
    case DType::kF8E4M3:
      return LaunchDecodeOfType<DType::kF8E4M3>(args, stream);
    case DType::kF8E5M2:
      return LaunchDecodeOfType<DType::kF8E5M2>(args, stream);
    default:
      return LaunchDecodeOfType<DType::kBF16>(args, stream);
  }
}

int32_t PagedDecodeHeadTiles(int32_t head_dim, int32_t group) {
  const int32_t heads = 8 * DecodeHeadTiles(head_dim, group);
  return (group + heads - 1) / heads;
}

int32_t PagedDecodeBlocksPerMultiprocessor(const PagedKv& kv, int32_t num_heads,
                                           int32_t shared_bytes_per_multiprocessor) {
  const int32_t element_bytes = RowBytes(kv.dtype, kv.head_dim) / kv.head_dim;
  const DecodeShape shape =
      DecodeShapeOf(kv.head_dim, element_bytes, kv.dtype == DType::kI8,
                    DecodeHeadTiles(kv.head_dim, num_heads / kv.num_kv_heads));
  constexpr int32_t kReservedBytes = 1024;  // of each block, by the system
  // More would share registers: 65,536 for 128 threads of up to 168 each.
  constexpr int32_t kMostBlocks = 3;
  return std::clamp(shared_bytes_per_multiprocessor / (shape.shared_bytes + kReservedBytes), 1,
                    kMostBlocks);
}

}  // namespace octavo::cuda
