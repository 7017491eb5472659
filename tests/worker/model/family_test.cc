// Each family of the Llama kind against the logits that transformers computes in float32 for a
// random model of two layers (make_tiny_checkpoints.py).
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/worker/model/loaded_model.h"
#include "worker/kv/kv_pool.h"
#include "worker/kv/table_mirror.h"
#include "worker/model/decoder.h"
#include "worker/model/step_inputs.h"

namespace octavo {
namespace {

constexpr int32_t kBlockSize = 8;
constexpr int32_t kMaxTokens = 64;
constexpr double kTolerance = 1e-4;  // of the largest logit

std::vector<float> ReadFloats(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

// A prompt through decoder and pool, in chunks.
class PromptRunner {
 public:
  PromptRunner(const LoadedModel& loaded, const std::vector<TokenId>& tokens)
      : loaded_(loaded),
        tokens_(tokens),
        geometry_(*CacheGeometry::Create(KvShapeOf(loaded.model->config), DType::kF32, kBlockSize)),
        num_blocks_(kMaxTokens / kBlockSize * geometry_.num_groups()),
        inputs_(*loaded.backend),
        mirror_({.num_blocks = num_blocks_,
                 .block_size = kBlockSize,
                 .max_model_len = kMaxTokens,
                 .max_num_seqs = 1,
                 .max_num_batched_tokens = kMaxTokens,
                 .vocab_size = loaded.model->config.vocab_size,
                 .group_windows = WindowsOf(geometry_.groups())}) {
    pool_ = *KvPool::Create(*loaded.backend, geometry_, num_blocks_);
    decoder_ =
        *Decoder::Create(*loaded.backend, *loaded.model, {kMaxTokens, kMaxTokens, kMaxTokens});
  }

  // Logits of all positions, [tokens, vocab].
  std::vector<float> Run(int32_t chunk) {
    std::vector<float> logits;
    for (int32_t at = 0; at < static_cast<int32_t>(tokens_.size()); at += chunk) {
      const int32_t end = std::min<int32_t>(at + chunk, static_cast<int32_t>(tokens_.size()));
      const Matrix rows = Step(at, end);
      const size_t count = static_cast<size_t>(rows.rows * rows.cols);
      logits.resize(logits.size() + count);
      EXPECT_TRUE(
          loaded_.backend
              ->CopyToHost(logits.data() + logits.size() - count, rows.data, count * sizeof(float))
              .ok());
    }
    return logits;
  }

 private:
  Matrix Step(int32_t at, int32_t end) {
    SeqSlice slice;
    slice.sequence = 1;
    if (at == 0) {
      slice.start = SequenceStart{};
      // Any order of blocks must do.
      for (BlockId block = num_blocks_; block >= 1; --block) slice.new_blocks.push_back(block);
    }
    slice.context_length = at;
    slice.num_tokens = end - at;
    slice.tokens.assign(tokens_.begin() + at, tokens_.begin() + end);
    StepPlan plan;
    plan.slices.push_back(slice);
    EXPECT_TRUE(mirror_.Apply(plan).ok());
    EXPECT_TRUE(inputs_.Build(plan, mirror_).ok());
    row_ids_.resize(static_cast<size_t>(end - at));
    std::iota(row_ids_.begin(), row_ids_.end(), 0);
    const absl::StatusOr<Matrix> logits =
        decoder_->Forward(inputs_.batch(), pool_->view(), row_ids_);
    EXPECT_TRUE(logits.ok()) << logits.status();
    return logits.value_or(Matrix{});
  }

  const LoadedModel& loaded_;
  const std::vector<TokenId> tokens_;
  const CacheGeometry geometry_;
  const int32_t num_blocks_;
  StepInputs inputs_;
  TableMirror mirror_;
  std::unique_ptr<KvPool> pool_;
  std::unique_ptr<Decoder> decoder_;
  std::vector<int32_t> row_ids_;
};

class Family : public testing::TestWithParam<const char*> {};

TEST_P(Family, LogitsEqualThoseOfTransformers) {
  const std::string folder = TestDataPath(std::string("tiny/") + GetParam());
  const LoadedModel loaded = LoadForTest(folder);
  const std::vector<float> expected = ReadFloats(folder + "/logits.f32");
  std::ifstream prompts_file(folder + "/prompts.json");
  const auto prompts = nlohmann::json::parse(prompts_file).get<std::vector<std::vector<TokenId>>>();
  float largest = 0;
  for (const float logit : expected) largest = std::max(largest, std::fabs(logit));

  size_t at = 0;
  for (const std::vector<TokenId>& tokens : prompts) {
    const std::vector<float> logits = PromptRunner(loaded, tokens).Run(kMaxTokens);
    ASSERT_LE(at + logits.size(), expected.size());
    double worst = 0;
    for (size_t i = 0; i < logits.size(); ++i)
      worst = std::max<double>(worst, std::fabs(logits[i] - expected[at + i]));
    EXPECT_LT(worst / largest, kTolerance) << tokens.size() << " tokens";
    EXPECT_EQ(logits, PromptRunner(loaded, tokens).Run(7)) << "chunks change bits";
    at += logits.size();
  }
  EXPECT_EQ(at, expected.size());
}

INSTANTIATE_TEST_SUITE_P(Tiny, Family,
                         testing::Values("llama-tied-f32", "llama3-scaling", "llama-yarn-biases",
                                         "llama-linear-f16", "mistral-window", "qwen2", "qwen3",
                                         "gemma2-softcaps", "gemma3-windows"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace octavo
