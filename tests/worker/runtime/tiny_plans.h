// Plans for the tiny checkpoints, for tests of executors and services.
#ifndef OCTAVO_TESTS_WORKER_RUNTIME_TINY_PLANS_H_
#define OCTAVO_TESTS_WORKER_RUNTIME_TINY_PLANS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "common/executor.h"
#include "common/step.h"

namespace octavo {

inline WorkerConfig TinyConfig(Epoch epoch, int64_t num_blocks = 16) {
  WorkerConfig config;
  config.epoch = epoch;
  config.kv_dtype = DType::kF32;
  config.block_size = 8;
  config.max_model_len = 64;
  config.max_num_seqs = 4;
  config.max_num_batched_tokens = 32;
  config.num_blocks = num_blocks;
  return config;
}

// Step 1: a prompt of three tokens starts and samples.
inline StepPlan PrefillPlan(Epoch epoch, StepId step = 1, SequenceId sequence = 7,
                            BlockId block = 2) {
  SeqSlice slice;
  slice.sequence = sequence;
  slice.start = SequenceStart{};
  slice.start->sampling.temperature = 0;
  slice.start->sampling.num_logprobs = 3;
  slice.tokens = {10, 20, 30};
  slice.num_tokens = 3;
  slice.new_blocks = {block};
  slice.sample = true;
  StepPlan plan;
  plan.epoch = epoch;
  plan.step = step;
  plan.slices = {std::move(slice)};
  return plan;
}

// Steps 2 to 6: feed what the step before sampled.
inline StepPlan NextTokenPlan(Epoch epoch, StepId step) {
  SeqSlice slice;
  slice.sequence = 7;
  slice.context_length = static_cast<int32_t>(step) + 1;
  slice.num_tokens = 1;
  slice.feed_sampled = true;
  slice.sample = true;
  StepPlan plan;
  plan.epoch = epoch;
  plan.step = step;
  plan.slices = {std::move(slice)};
  return plan;
}

}  // namespace octavo

#endif  // OCTAVO_TESTS_WORKER_RUNTIME_TINY_PLANS_H_
