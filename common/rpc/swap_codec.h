// The swaps of a step plan, on the wire and back. See step_codec.h.
#ifndef OCTAVO_COMMON_RPC_SWAP_CODEC_H_
#define OCTAVO_COMMON_RPC_SWAP_CODEC_H_

#include "absl/status/status.h"
#include "common/rpc/step_codec.h"
#include "common/step.h"
#include "octavo/worker/v1/worker.pb.h"

namespace octavo {

void EncodeSwaps(const StepPlan& plan, worker::v1::StepPlan* out);
// INVALID_ARGUMENT for a block out of range, on either side, or named by two swaps (swap.1).
absl::Status DecodeSwaps(const worker::v1::StepPlan& message, const StepLimits& limits,
                         StepPlan* plan);

}  // namespace octavo

#endif  // OCTAVO_COMMON_RPC_SWAP_CODEC_H_
