// Scheduler and worker together on a model with windowed layers: what windows give back and what is
// found again changes no token (kv.7, det.2).
#include <algorithm>
#include <map>
#include <vector>

#include "gtest/gtest.h"
#include "scheduler/core/scheduler.h"
#include "tests/worker/model/greedy_driver.h"
#include "tests/worker/model/loaded_model.h"
#include "worker/runtime/model_runner.h"

namespace octavo {
namespace {

constexpr int32_t kBlockSize = 8;
constexpr int32_t kPrompt = 40;  // tokens, of which prompts share the first half
constexpr int32_t kOutput = 24;

std::vector<std::vector<TokenId>> Prompts(int32_t vocab_size) {
  std::vector<std::vector<TokenId>> prompts;
  for (int32_t i = 0; i < 6; ++i) {
    std::vector<TokenId>& prompt = prompts.emplace_back();
    for (int32_t p = 0; p < kPrompt; ++p) {
      prompt.push_back((p * 7 + (p < kPrompt / 2 ? 0 : 13 * i) + 3) % vocab_size);
    }
  }
  return prompts;
}

// The tokens of each prompt, scheduled with `num_blocks` blocks.
std::vector<std::vector<TokenId>> Serve(const LoadedModel& loaded,
                                        const std::vector<std::vector<TokenId>>& prompts,
                                        int64_t num_blocks, SchedulerStats* stats) {
  WorkerConfig config;
  config.epoch = 1;
  config.kv_dtype = DType::kF32;
  config.block_size = kBlockSize;
  config.max_model_len = kPrompt + kOutput;
  config.max_num_seqs = 4;
  config.max_num_batched_tokens = 24;
  config.num_blocks = num_blocks;
  const CacheGeometry geometry =
      *CacheGeometry::Create(KvShapeOf(loaded.model->config), config.kv_dtype, kBlockSize);
  ModelRunner runner(*loaded.backend, *loaded.model, {});
  EXPECT_TRUE(runner.Configure(config).ok());
  SchedulerConfig core;
  core.block_size = kBlockSize;
  core.num_blocks = num_blocks;
  core.group_windows = WindowsOf(geometry.groups());
  core.vocab_size = loaded.model->config.vocab_size;
  core.max_model_len = config.max_model_len;
  core.max_num_seqs = config.max_num_seqs;
  core.max_num_batched_tokens = config.max_num_batched_tokens;
  core.prefix_cache_key = "key";
  Scheduler scheduler(core);
  for (size_t i = 0; i < prompts.size(); ++i) {
    Request request;
    request.id = i;
    request.prompt = prompts[i];
    request.sampling.temperature = 0;
    request.max_tokens = kOutput;
    request.ignore_eos = true;
    EXPECT_TRUE(scheduler.Add(std::move(request)).ok());
  }
  std::vector<std::vector<TokenId>> tokens(prompts.size());
  while (!scheduler.idle()) {
    const std::optional<StepPlan> plan = scheduler.Schedule(absl::UnixEpoch());
    if (!plan.has_value()) return {};
    const absl::StatusOr<StepResult> result = runner.Execute(*plan);
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) return {};
    for (const TokenEvent& event : scheduler.Commit(*result)) {
      tokens[event.request].push_back(*event.token);
    }
    scheduler.CheckInvariants();
  }
  *stats = scheduler.stats();
  return tokens;
}

TEST(WindowScheduling, TokensAreThoseOfAnUndisturbedRun) {
  for (const char* model : {"gemma3-windows", "mistral-window"}) {
    SCOPED_TRACE(model);
    const LoadedModel loaded = LoadForTest(TestDataPath(std::string("tiny/") + model));
    const auto prompts = Prompts(loaded.model->config.vocab_size);
    std::vector<std::vector<TokenId>> expected;
    for (const std::vector<TokenId>& prompt : prompts) {
      GreedyOptions options;
      options.block_size = kBlockSize;
      options.kv_dtype = DType::kF32;
      std::vector<TokenId>& tokens = expected.emplace_back();
      const auto undisturbed = RunGreedy(loaded, {{prompt, kOutput}}, options);
      for (const SampledToken& sampled : undisturbed[0]) {
        tokens.push_back(sampled.token);
      }
    }
    const std::vector<KvGroup> groups =
        CacheGeometry::Create(KvShapeOf(loaded.model->config), DType::kF32, kBlockSize)->groups();
    int64_t one_request = 0;
    for (const KvGroup& group : groups) {
      one_request += BlocksKept((kPrompt + kOutput) / kBlockSize, group.window, kBlockSize);
    }
    SchedulerStats roomy;
    EXPECT_EQ(Serve(loaded, prompts, 200, &roomy), expected);
    EXPECT_GT(roomy.prefix_hit_tokens, 0u);
    SchedulerStats tight;
    EXPECT_EQ(Serve(loaded, prompts, 2 * one_request, &tight), expected);
    EXPECT_EQ(roomy.preemptions_pool, 0u);
  }
}

}  // namespace
}  // namespace octavo
