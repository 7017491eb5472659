#include "worker/cuda/kernels/paged_prefill.h"

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/cuda/kernels/attention_types.h"

namespace octavo::cuda {

absl::Status LaunchPagedPrefill(const PagedPrefillArgs& args, cudaStream_t stream) {
  OCTAVO_RETURN_IF_ERROR(CheckPagedArgs("paged prefill", args, args.items));
  if (args.num_items < 1)
    return absl::InvalidArgumentError(
        absl::StrCat("paged prefill: num_items is ", args.num_items, "; it must be at least 1"));
  return LaunchForCache(args.kv.dtype,
                        [&]<DType kType>() { return LaunchPrefillOfType<kType>(args, stream); });
}

}  // namespace octavo::cuda
