#include "tests/worker/model/greedy_driver.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

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

// The runners of a group, each called on a thread of its own. Every call succeeds, or the test
// program ends.
class RunnerGroup {
 public:
  explicit RunnerGroup(std::span<const LoadedModel> ranks) {
    for (const LoadedModel& rank : ranks)
      runners_.push_back(std::make_unique<ModelRunner>(*rank.backend, *rank.model, MemoryFlags{}));
  }

  void Configure(WorkerConfig config) {
    const auto place = [&](int32_t rank) {
      WorkerConfig own = config;
      own.rank = rank;
      own.world_size = static_cast<int32_t>(runners_.size());
      return own;
    };
    const int64_t num_blocks = std::exchange(config.num_blocks, 0);
    std::vector<std::string> addresses(runners_.size());
    OnRanks([&](int32_t rank, ModelRunner& runner) {
      const absl::StatusOr<WorkerCapacity> capacity = runner.Configure(place(rank));
      OCTAVO_CHECK(capacity.ok(), capacity.status().ToString());
      addresses[static_cast<size_t>(rank)] = capacity->communicator_address;
    });
    config.num_blocks = num_blocks;
    config.communicator_addresses = addresses;
    OnRanks([&](int32_t rank, ModelRunner& runner) {
      const absl::StatusOr<WorkerCapacity> capacity = runner.Configure(place(rank));
      OCTAVO_CHECK(capacity.ok(), capacity.status().ToString());
    });
  }

  StepResult Execute(const StepPlan& plan) {
    StepResult of_rank_0;
    OnRanks([&](int32_t rank, ModelRunner& runner) {
      absl::StatusOr<StepResult> result = runner.Execute(plan);
      OCTAVO_CHECK(result.ok(), result.status().ToString());
      if (rank == 0) of_rank_0 = *std::move(result);
    });
    return of_rank_0;
  }

 private:
  void OnRanks(const std::function<void(int32_t, ModelRunner&)>& call) {
    std::vector<std::thread> others;
    for (size_t rank = 1; rank < runners_.size(); ++rank)
      others.emplace_back([&, rank] { call(static_cast<int32_t>(rank), *runners_[rank]); });
    call(0, *runners_[0]);
    for (std::thread& thread : others) thread.join();
  }

  std::vector<std::unique_ptr<ModelRunner>> runners_;
};

}  // namespace

std::vector<std::vector<SampledToken>> RunGreedy(const LoadedModel& loaded,
                                                 const std::vector<GreedyPrompt>& prompts,
                                                 const GreedyOptions& options) {
  return RunGreedy(std::span(&loaded, 1), prompts, options);
}

std::vector<std::vector<SampledToken>> RunGreedy(std::span<const LoadedModel> ranks,
                                                 const std::vector<GreedyPrompt>& prompts,
                                                 const GreedyOptions& options) {
  const int32_t num_groups =
      CacheGeometry::Create(KvShapeOf(ranks[0].model->config), options.kv_dtype, options.block_size)
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
  RunnerGroup runners(ranks);
  runners.Configure(config);

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
    StepResult result = runners.Execute(plan);
    for (SampledToken& token : result.samples) sampled[token.sequence].push_back(std::move(token));
  }
}

}  // namespace octavo
