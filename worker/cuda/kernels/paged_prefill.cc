#include "worker/cuda/kernels/paged_prefill.h"

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/cuda/kernels/attention_types.h"
#include "worker/cuda/kernels/paged_shape_check.h"

namespace octavo::cuda {

absl::Status LaunchPagedPrefill(const PagedPrefillArgs& args, cudaStream_t stream) {
  const AttentionRows rows = {args.q,     args.q_stride, args.out,           args.out_stride,
                              args.scale, args.softcap,  args.sliding_window};
  OCTAVO_RETURN_IF_ERROR(CheckPagedRows("paged prefill", args.kv, args.num_heads, rows,
                                        args.block_tables, args.items));
  if (args.num_items < 1)
    return absl::InvalidArgumentError(
        absl::StrCat("paged prefill: num_items is ", args.num_items, "; it must be at least 1"));
  switch (args.kv.dtype) {
    case DType::kF16:
      return LaunchPrefillOfType<DType::kF16>(args, stream);
    case DType::kI8:
      return LaunchPrefillOfType<DType::kI8>(args, stream);
    case DType::kF8E4M3:
      return LaunchPrefillOfType<DType::kF8E4M3>(args, stream);
    case DType::kF8E5M2:
      return LaunchPrefillOfType<DType::kF8E5M2>(args, stream);
    default:
      return LaunchPrefillOfType<DType::kBF16>(args, stream);
  }
}

}  // namespace octavo::cuda
