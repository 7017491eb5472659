#include "tests/worker/model/greedy_driver.h"

#include <algorithm>

#include "common/check.h"
#include "worker/runtime/model_runner.h"

namespace octavo {
namespace {

int32_t LengthOf(const GreedyPrompt& prompt) {
  return static_cast<int32_t>(prompt.tokens.size()) + prompt.max_new_tokens;
}

// The next slice of `sequence`, of which `computed` tokens are in the cache.
SeqSlice NextSlice(const GreedyPrompt& prompt, const GreedyOptions& options, SequenceId sequence,
                   int32_t computed, int32_t num_groups, BlockId* next_block) {
  const int32_t prompt_length = static_cast<int32_t>(prompt.tokens.size());
  SeqSlice slice;
  slice.sequence = sequence;
  slice.context_length = computed;
  if (computed < prompt_length) {
    slice.num_tokens = prompt_length - computed;
    if (options.chunk > 0) slice.num_tokens = std::min(slice.num_tokens, options.chunk);
    slice.tokens.assign(prompt.tokens.begin() + computed,
                        prompt.tokens.begin() + computed + slice.num_tokens);
  } else {
    slice.num_tokens = 1;
    slice.feed_sampled = true;
  }
  slice.sample = computed + slice.num_tokens >= prompt_length;
  if (computed == 0) {
    slice.start = SequenceStart{};
    slice.start->sampling.temperature = 0;
    slice.start->sampling.num_logprobs = options.num_logprobs;
  }
  const int32_t held = (computed + options.block_size - 1) / options.block_size;
  const int32_t needed =
      (computed + slice.num_tokens + options.block_size - 1) / options.block_size;
  for (int32_t i = held * num_groups; i < needed * num_groups; ++i)
    slice.new_blocks.push_back((*next_block)++);
  return slice;
}

}  // namespace

std::vector<std::vector<SampledToken>> RunGreedy(const LoadedModel& loaded,
                                                 const std::vector<GreedyPrompt>& prompts,
                                                 const GreedyOptions& options) {
  const int32_t num_groups =
      CacheGeometry::Create(KvShapeOf(loaded.model->config), options.kv_dtype, options.block_size)
          ->num_groups();
  WorkerConfig config;
  config.epoch = 1;
  config.kv_dtype = options.kv_dtype;
  config.block_size = options.block_size;
  config.max_num_seqs = static_cast<int32_t>(prompts.size());
  for (const GreedyPrompt& prompt : prompts) {
    config.max_model_len = std::max(config.max_model_len, LengthOf(prompt));
    config.max_num_batched_tokens += static_cast<int32_t>(prompt.tokens.size());
    config.num_blocks += (LengthOf(prompt) / options.block_size + 1) * num_groups;
  }
  ModelRunner runner(*loaded.backend, *loaded.model, {});
  const absl::StatusOr<WorkerCapacity> capacity = runner.Configure(config);
  OCTAVO_CHECK(capacity.ok(), capacity.status().ToString());

  std::vector<std::vector<SampledToken>> sampled(prompts.size());
  std::vector<int32_t> computed(prompts.size(), 0);
  BlockId next_block = 1;
  StepPlan plan;
  plan.epoch = 1;
  while (true) {
    ++plan.step;
    plan.slices.clear();
    for (size_t i = 0; i < prompts.size(); ++i) {
      if (static_cast<int32_t>(sampled[i].size()) == prompts[i].max_new_tokens) continue;
      plan.slices.push_back(
          NextSlice(prompts[i], options, i, computed[i], num_groups, &next_block));
      computed[i] += plan.slices.back().num_tokens;
      if (!options.batched) break;
    }
    if (plan.slices.empty()) return sampled;
    absl::StatusOr<StepResult> result = runner.Execute(plan);
    OCTAVO_CHECK(result.ok(), result.status().ToString());
    for (SampledToken& token : result->samples) sampled[token.sequence].push_back(std::move(token));
  }
}

}  // namespace octavo
