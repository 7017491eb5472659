#include "common/rpc/swap_codec.h"

#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "common/rpc/decode_limits.h"
#include "common/status_macros.h"

namespace octavo {
namespace {

using SwapMessages = google::protobuf::RepeatedPtrField<worker::v1::BlockSwap>;

void Encode(const std::vector<BlockSwap>& swaps, SwapMessages* out) {
  for (const BlockSwap& swap : swaps) {
    auto* to = out->Add();
    to->set_device(static_cast<uint32_t>(swap.device));
    to->set_host(static_cast<uint32_t>(swap.host));
  }
}

// `devices` and `hosts` have what the plan's swaps name so far.
absl::Status Decode(const SwapMessages& messages, const StepLimits& limits,
                    absl::flat_hash_set<BlockId>* devices, absl::flat_hash_set<BlockId>* hosts,
                    std::vector<BlockSwap>* out) {
  OCTAVO_RETURN_IF_ERROR(CountWithin("block swaps", messages.size(), limits.num_swap_blocks));
  out->reserve(messages.size());
  for (const auto& swap : messages) {
    BlockSwap& to = out->emplace_back();
    OCTAVO_ASSIGN_OR_RETURN(to.device,
                            InRange("swapped block", swap.device(), 1, limits.num_blocks));
    OCTAVO_ASSIGN_OR_RETURN(to.host, InRange("host block", swap.host(), 1, limits.num_swap_blocks));
    if (!devices->insert(to.device).second)
      return absl::InvalidArgumentError(
          absl::StrCat("block ", to.device, " is named by two swaps"));
    if (!hosts->insert(to.host).second)
      return absl::InvalidArgumentError(
          absl::StrCat("host block ", to.host, " is named by two swaps"));
  }
  return absl::OkStatus();
}

}  // namespace

void EncodeSwaps(const StepPlan& plan, worker::v1::StepPlan* out) {
  Encode(plan.swap_outs, out->mutable_swap_outs());
  Encode(plan.swap_ins, out->mutable_swap_ins());
}

absl::Status DecodeSwaps(const worker::v1::StepPlan& message, const StepLimits& limits,
                         StepPlan* plan) {
  absl::flat_hash_set<BlockId> devices, hosts;
  OCTAVO_RETURN_IF_ERROR(Decode(message.swap_outs(), limits, &devices, &hosts, &plan->swap_outs));
  return Decode(message.swap_ins(), limits, &devices, &hosts, &plan->swap_ins);
}

}  // namespace octavo
