#include "worker/runtime/largest_step.h"

#include <algorithm>
#include <utility>

#include "common/status_macros.h"
#include "worker/runtime/model_runner.h"

namespace octavo {
namespace {

// A batch of decodes is launched, recorded and replayed (Backend::BeginStep).
constexpr int32_t kDecodes = 3;

// What was in use at the peak of them, pool included.
absl::StatusOr<DevicePeak> RunLargestSteps(Backend& backend, ModelRunner& runner,
                                           const WorkerConfig& config, int32_t num_groups) {
  backend.WatchPeak();
  OCTAVO_RETURN_IF_ERROR(runner.Configure(config).status());
  for (const StepPlan& plan : LargestSteps(config, num_groups))
    OCTAVO_RETURN_IF_ERROR(runner.Execute(plan).status());
  return backend.Peak();
}

}  // namespace

std::vector<StepPlan> LargestSteps(const WorkerConfig& config, int32_t num_groups) {
  const int64_t block_size = config.block_size;
  int64_t rows_left = config.num_blocks / num_groups;  // of tables
  const int64_t most =
      std::min<int64_t>({config.max_num_seqs, config.max_num_batched_tokens, rows_left});
  const int32_t decodes = std::clamp(config.max_model_len - 1, 0, kDecodes);
  int64_t tokens_left = config.max_num_batched_tokens;
  BlockId next_block = 1;
  StepPlan prefill;
  prefill.epoch = config.epoch;
  prefill.step = 1;
  for (int64_t i = 0; i < most; ++i) {
    // One token and one row at least stay for each of the others.
    const int64_t others = most - i - 1;
    const int64_t room = (rows_left - others) * block_size - decodes;
    const int64_t tokens =
        std::min<int64_t>({tokens_left - others, config.max_model_len - decodes, room});
    if (tokens < 1) break;
    SeqSlice slice;
    slice.sequence = static_cast<SequenceId>(i + 1);
    slice.start = SequenceStart{};
    slice.num_tokens = static_cast<int32_t>(tokens);
    slice.tokens.assign(static_cast<size_t>(tokens), 0);
    slice.sample = true;
    const int64_t rows = (tokens + decodes + block_size - 1) / block_size;
    for (int64_t entry = 0; entry < rows * num_groups; ++entry)
      slice.new_blocks.push_back(next_block++);
    tokens_left -= tokens;
    rows_left -= rows;
    prefill.slices.push_back(std::move(slice));
  }
  std::vector<StepPlan> plans = {prefill};
  for (int32_t decode = 0; decode < decodes; ++decode) {
    StepPlan plan;
    plan.epoch = config.epoch;
    plan.step = decode + 2;
    for (const SeqSlice& first : prefill.slices) {
      SeqSlice slice;
      slice.sequence = first.sequence;
      slice.context_length = first.num_tokens + decode;
      slice.num_tokens = 1;
      slice.feed_sampled = true;
      slice.sample = true;
      plan.slices.push_back(std::move(slice));
    }
    plans.push_back(std::move(plan));
  }
  return plans;
}

absl::StatusOr<LargestStepUse> MeasureLargestStep(Backend& backend, const Model& model,
                                                  const WorkerConfig& config) {
  OCTAVO_ASSIGN_OR_RETURN(
      const CacheGeometry geometry,
      CacheGeometry::Create(KvShapeOf(model.config), config.kv_dtype, config.block_size));
  OCTAVO_ASSIGN_OR_RETURN(const DeviceMemory before, backend.Memory());
  ModelRunner runner(backend, model, {});
  const absl::StatusOr<DevicePeak> peak =
      RunLargestSteps(backend, runner, config, geometry.num_groups());
  runner.Forget();  // also what has begun and failed
  if (!peak.ok()) return peak.status();
  OCTAVO_ASSIGN_OR_RETURN(const DeviceMemory after, backend.Memory());
  const int64_t used_after = after.total_bytes - after.free_bytes;
  LargestStepUse use;
  use.bytes = std::max<int64_t>(
      0, peak->used_bytes - geometry.PoolBytes(config.num_blocks + 1) - used_after);
  use.stay_bytes = std::max<int64_t>(0, before.free_bytes - after.free_bytes);
  use.graph_bytes = peak->graph_bytes;
  return use;
}

}  // namespace octavo
