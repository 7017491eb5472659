// step.h and executor.h structs to worker.proto messages and back. Decoding trusts nothing: every
// value is checked against the range of its type and against StepLimits, with the value and the
// limit in the error (INVALID_ARGUMENT).
#ifndef OCTAVO_COMMON_RPC_STEP_CODEC_H_
#define OCTAVO_COMMON_RPC_STEP_CODEC_H_

#include <cstdint>
#include <limits>

#include "absl/status/statusor.h"
#include "common/executor.h"
#include "common/step.h"
#include "octavo/worker/v1/worker.pb.h"

namespace octavo {

// What a receiver knows about the steps it can be sent.
struct StepLimits {
  int64_t max_num_seqs = std::numeric_limits<int32_t>::max();
  int64_t max_num_batched_tokens = std::numeric_limits<int32_t>::max();
  int64_t max_model_len = std::numeric_limits<int32_t>::max();
  int64_t vocab_size = std::numeric_limits<int32_t>::max();
  int64_t num_blocks = std::numeric_limits<int32_t>::max();  // ids are in [1, num_blocks]
  int64_t num_swap_blocks = std::numeric_limits<int32_t>::max();
};

// Clears and fills `out`; reusing one message keeps its memory.
void EncodePlan(const StepPlan& plan, worker::v1::StepPlan* out);
// Also refuses a slice without tokens, a count that contradicts the tokens, a sequence with two
// slices or born twice, more samples than sequences, a copy whose source is also a target (step.4),
// and a block that two swaps name (swap.1).
absl::StatusOr<StepPlan> DecodePlan(const worker::v1::StepPlan& message, const StepLimits& limits);

void EncodeResult(const StepResult& result, worker::v1::StepResult* out);
absl::StatusOr<StepResult> DecodeResult(const worker::v1::StepResult& message,
                                        const StepLimits& limits);

void EncodeDescription(const WorkerDescription& description, worker::v1::DescribeResponse* out);
absl::StatusOr<WorkerDescription> DecodeDescription(const worker::v1::DescribeResponse& message);

void EncodeProgress(const LoadProgress& progress, worker::v1::LoadProgress* out);
LoadProgress DecodeProgress(const worker::v1::LoadProgress& message);

void EncodeConfig(const WorkerConfig& config, worker::v1::ConfigureRequest* out);
absl::StatusOr<WorkerConfig> DecodeConfig(const worker::v1::ConfigureRequest& message);

void EncodeCapacity(const WorkerCapacity& capacity, worker::v1::ConfigureResponse* out);
absl::StatusOr<WorkerCapacity> DecodeCapacity(const worker::v1::ConfigureResponse& message);

}  // namespace octavo

#endif  // OCTAVO_COMMON_RPC_STEP_CODEC_H_
