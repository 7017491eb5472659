#include "worker/runtime/model_runner.h"

#include <algorithm>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/model/loaded_model.h"
#include "tests/worker/runtime/tiny_plans.h"

namespace octavo {
namespace {

using ::testing::HasSubstr;

class ModelRunnerTest : public testing::Test {
 protected:
  LoadedModel loaded_ = LoadForTest(TestDataPath("tiny/qwen3"), 1);
  ModelRunner runner_{*loaded_.backend, *loaded_.model, {.kv_cache_bytes = 1 << 20}};
};

TEST_F(ModelRunnerTest, AskingChangesNothing) {
  ASSERT_TRUE(runner_.Configure(TinyConfig(1)).ok());
  ASSERT_TRUE(runner_.Execute(PrefillPlan(1)).ok());
  const absl::StatusOr<WorkerCapacity> capacity = runner_.Configure(TinyConfig(1, 0));
  ASSERT_TRUE(capacity.ok()) << capacity.status();
  // 2 x 2 layers x 2 kv_heads x 32 head_dim x 4 bytes = 1,024 bytes a token.
  EXPECT_EQ(capacity->num_blocks, (1 << 20) / (1024 * 8) - 1);
  EXPECT_GT(capacity->weight_bytes, 100000);
  EXPECT_GT(capacity->activation_bytes, 0);
  EXPECT_EQ(runner_.num_sequences(), 1u);
  EXPECT_TRUE(runner_.Execute(NextTokenPlan(1, 2)).ok());
}

TEST_F(ModelRunnerTest, ConfiguringForgetsSequences) {
  ASSERT_TRUE(runner_.Configure(TinyConfig(1)).ok());
  ASSERT_TRUE(runner_.Execute(PrefillPlan(1)).ok());
  ASSERT_TRUE(runner_.Configure(TinyConfig(2)).ok());
  EXPECT_EQ(runner_.num_sequences(), 0u);
}

TEST_F(ModelRunnerTest, RefusesConfigurationsByField) {
  const auto error = [&](auto change) {
    WorkerConfig config = TinyConfig(1);
    change(config);
    return std::string(runner_.Configure(config).status().message());
  };
  EXPECT_THAT(error([](WorkerConfig& c) { c.max_model_len = 300; }),
              HasSubstr("max_model_len is 300; it must be in [1, 256]"));
  EXPECT_THAT(error([](WorkerConfig& c) { c.max_num_seqs = 0; }), HasSubstr("max_num_seqs is 0"));
  EXPECT_THAT(error([](WorkerConfig& c) { c.num_blocks = -1; }), HasSubstr("num_blocks is -1"));
  EXPECT_THAT(error([](WorkerConfig& c) { c.block_size = 12; }), HasSubstr("block size is 12"));
  EXPECT_THAT(error([](WorkerConfig& c) { c.num_blocks = int64_t{1} << 50; }),
              HasSubstr("num_blocks is"));
  EXPECT_FALSE(runner_.configured());
  EXPECT_EQ(runner_.Execute(PrefillPlan(1)).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(ModelRunnerTest, ARefusedPlanChangesNothing) {
  ASSERT_TRUE(runner_.Configure(TinyConfig(1)).ok());
  ASSERT_TRUE(runner_.Execute(PrefillPlan(1)).ok());
  StepPlan bad = NextTokenPlan(1, 2);
  bad.slices[0].new_blocks = {99};
  EXPECT_EQ(runner_.Execute(bad).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(runner_.Execute(NextTokenPlan(1, 2)).ok());
}

TEST_F(ModelRunnerTest, CopiedBlocksServeAsThoseOfTheirSource) {
  ASSERT_TRUE(runner_.Configure(TinyConfig(1)).ok());
  StepPlan plan = PrefillPlan(1);
  ASSERT_TRUE(runner_.Execute(plan).ok());
  const absl::StatusOr<StepResult> direct = runner_.Execute(NextTokenPlan(1, 2));
  ASSERT_TRUE(direct.ok()) << direct.status();

  // Another sequence begins with a copy of the block and one token of its own: that which the first
  // one was fed. A prefix of three tokens is taken as cached.
  StepPlan fork = PrefillPlan(1, 3, /*sequence=*/8, /*block=*/5);
  fork.copies = {{2, 5}};
  fork.slices[0].context_length = 3;
  fork.slices[0].num_tokens = 1;
  ModelRunner again(*loaded_.backend, *loaded_.model, {});
  ASSERT_TRUE(again.Configure(TinyConfig(1)).ok());
  fork.slices[0].tokens = {again.Execute(plan)->samples[0].token};
  const absl::StatusOr<StepResult> forked = runner_.Execute(fork);
  ASSERT_TRUE(forked.ok()) << forked.status();
  EXPECT_EQ(forked->samples[0].token, direct->samples[0].token);
  EXPECT_EQ(forked->samples[0].logprob, direct->samples[0].logprob);
}

TEST_F(ModelRunnerTest, ForksSampleTheSameLogitsAndGoOnByThemselves) {  // det.2
  // Alone: choice 2 of the same prompt and seed, in a sequence of its own.
  const auto prefill = [](uint32_t choice) {
    StepPlan plan = PrefillPlan(1);
    plan.slices[0].start->sampling.temperature = 1;
    plan.slices[0].start->sampling.seed = 77;
    plan.slices[0].start->choice_index = choice;
    return plan;
  };
  std::vector<std::vector<SampledToken>> alone;  // by choice
  for (uint32_t choice = 0; choice < 3; ++choice) {
    ASSERT_TRUE(runner_.Configure(TinyConfig(1)).ok());
    std::vector<SampledToken>& samples = alone.emplace_back();
    samples.push_back(runner_.Execute(prefill(choice))->samples.at(0));
    for (StepId step = 2; step < 7; ++step)
      samples.push_back(runner_.Execute(NextTokenPlan(1, step))->samples.at(0));
  }

  ASSERT_TRUE(runner_.Configure(TinyConfig(1)).ok());
  StepPlan fork = prefill(0);
  fork.slices[0].forks = {{8, 1}, {9, 2}};
  std::vector<SampledToken> first = runner_.Execute(fork)->samples;
  ASSERT_EQ(first.size(), 3u);
  for (StepId step = 2; step < 7; ++step) {
    StepPlan plan = NextTokenPlan(1, step);
    for (const SequenceId child : {8, 9}) {
      plan.slices.push_back(plan.slices[0]);
      plan.slices.back().sequence = child;
    }
    if (step == 2) {  // two of three copy the block that they share before they write to it
      plan.copies = {{2, 4}, {2, 5}};
      plan.slices[0].replaced = {{0, 4}};
      plan.slices[2].replaced = {{0, 5}};
    }
    const absl::StatusOr<StepResult> result = runner_.Execute(plan);
    ASSERT_TRUE(result.ok()) << result.status();
    first.insert(first.end(), result->samples.begin(), result->samples.end());
  }
  for (size_t i = 0; i < first.size(); ++i) {
    const SampledToken& expected = alone[i % 3][i / 3];
    EXPECT_EQ(first[i].sequence, 7 + i % 3);
    EXPECT_EQ(first[i].token, expected.token) << "choice " << i % 3 << " step " << i / 3 + 1;
    EXPECT_EQ(first[i].logprob, expected.logprob);
  }
}

// Tokens and log-probabilities of steps 2 to 6, the sequence being swapped out in step 3 and
// back in step 4, into another block, or not at all.
std::vector<SampledToken> RunWithSwap(ModelRunner& runner, bool swapped, bool early) {
  WorkerConfig config = TinyConfig(1);
  config.num_swap_blocks = 4;
  EXPECT_TRUE(runner.Configure(config).ok());
  EXPECT_TRUE(runner.Execute(PrefillPlan(1)).ok());
  std::vector<SampledToken> samples;
  for (StepId step = 2; step < 7; ++step) {
    StepPlan plan = NextTokenPlan(1, step);
    if (swapped && step == 3) {
      // Beside the compute of another sequence; the block is then overwritten by a third.
      StepPlan out = PrefillPlan(1, 3, /*sequence=*/8, /*block=*/5);
      out.swap_outs = {{2, 4}};
      out.dropped = {7};
      const absl::StatusOr<StepResult> result = runner.Execute(out);
      EXPECT_TRUE(result.ok()) << result.status();
      EXPECT_GT(result->swap_out_seconds, 0);
      EXPECT_EQ(result->swap_in_seconds, 0);
      EXPECT_TRUE(runner.Execute(PrefillPlan(1, 4, /*sequence=*/9, /*block=*/2)).ok());
      plan.step = 5;
      plan.slices[0].start = PrefillPlan(1).slices[0].start;
      plan.slices[0].feed_sampled = false;
      plan.slices[0].tokens = {samples.back().token};
      plan.slices[0].new_blocks = {3};
      plan.swap_ins = {{3, 4}};
      if (early) runner.BeginSwapIns(plan);
    }
    const absl::StatusOr<StepResult> result = runner.Execute(plan);
    EXPECT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->swap_in_seconds > 0, swapped && step == 3);
    samples.push_back(result->samples.at(0));
  }
  return samples;
}

TEST_F(ModelRunnerTest, ASequenceThatWasSwappedOutGoesOnWithTheSameBits) {  // det.2
  const std::vector<SampledToken> expected = RunWithSwap(runner_, false, false);
  EXPECT_EQ(RunWithSwap(runner_, true, false), expected);
  EXPECT_EQ(RunWithSwap(runner_, true, true), expected);
}

TEST_F(ModelRunnerTest, SwapsNeedHostBlocks) {
  ASSERT_TRUE(runner_.Configure(TinyConfig(1)).ok());
  StepPlan plan = PrefillPlan(1);
  plan.swap_ins = {{3, 1}};
  EXPECT_THAT(std::string(runner_.Execute(plan).status().message()),
              HasSubstr("host block 1 is outside [1, 0]"));
}

// Position by position: what sampling reports of the token that was fed next.
TEST_F(ModelRunnerTest, ScoresOfAChunkAreThoseOfOneTokenAtATime) {  // det.2
  const std::vector<TokenId> prompt = {10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110};
  const auto plan = [&](StepId step, int32_t first, int32_t rows) {
    StepPlan made = PrefillPlan(1, step);
    SeqSlice& slice = made.slices[0];
    if (first > 0) slice.start.reset();
    slice.context_length = first;
    slice.num_tokens = rows;
    slice.tokens.assign(prompt.begin() + first, prompt.begin() + first + rows);
    slice.new_blocks = first == 0 ? std::vector<BlockId>{2, 3} : std::vector<BlockId>{};
    slice.sample = first + rows == static_cast<int32_t>(prompt.size());
    const int32_t scored = std::min<int32_t>(rows, static_cast<int32_t>(prompt.size()) - 1 - first);
    if (scored > 0)
      slice.score =
          ScoreRows{0, {prompt.begin() + first + 1, prompt.begin() + first + 1 + scored}, 3};
    return made;
  };
  const auto run = [&](int32_t chunk, int32_t max_num_seqs) {
    WorkerConfig config = TinyConfig(1);
    config.max_num_seqs = max_num_seqs;  // rows of logits at a time
    EXPECT_TRUE(runner_.Configure(config).ok());
    std::vector<ScoredToken> scores;
    StepId step = 0;
    for (int32_t first = 0; first < static_cast<int32_t>(prompt.size()); first += chunk) {
      const int32_t rows = std::min(chunk, static_cast<int32_t>(prompt.size()) - first);
      const absl::StatusOr<StepResult> result = runner_.Execute(plan(++step, first, rows));
      EXPECT_TRUE(result.ok()) << result.status();
      for (const SliceScores& slice : result->scores) {
        EXPECT_EQ(slice.sequence, 7u);
        scores.insert(scores.end(), slice.tokens.begin(), slice.tokens.end());
      }
    }
    return scores;
  };
  const std::vector<ScoredToken> one = run(1, 4);
  ASSERT_EQ(one.size(), prompt.size() - 1);
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].token, prompt[i + 1]);
    EXPECT_LT(one[i].logprob, 0);
    EXPECT_EQ(one[i].top.size(), 3u);
    EXPECT_GE(one[i].top[0].logprob, one[i].logprob);
  }
  EXPECT_EQ(run(11, 4), one);
  EXPECT_EQ(run(11, 1), one);
  EXPECT_EQ(run(4, 3), one);
}

TEST_F(ModelRunnerTest, AnEmptyPlanIsAStepWithoutSamples) {
  ASSERT_TRUE(runner_.Configure(TinyConfig(1)).ok());
  StepPlan plan;
  plan.epoch = 1;
  plan.step = 1;
  const absl::StatusOr<StepResult> result = runner_.Execute(plan);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->samples.empty());
  EXPECT_EQ(result->step, 1u);
}

}  // namespace
}  // namespace octavo
