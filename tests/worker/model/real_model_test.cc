// The decoder on SmolLM2-135M-Instruct against transformers in float32.
#include <cstdint>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/worker/model/greedy_driver.h"
#include "tests/worker/model/loaded_model.h"

namespace octavo {
namespace {

// Below this difference of the two best logits two correct float32 programs may disagree.
constexpr double kNearTie = 1e-3;
constexpr double kLogprobTolerance = 5e-4;

struct ReferenceCase {
  std::string name;
  GreedyPrompt prompt;
  std::vector<TokenId> output;
  std::vector<double> margins;
  std::vector<std::pair<TokenId, double>> first_top5;
};

std::vector<ReferenceCase> ReadCases(const std::set<std::string>& names) {
  std::ifstream file(TestDataPath("reference/greedy.jsonl"));
  std::vector<ReferenceCase> cases;
  for (std::string line; std::getline(file, line);) {
    const nlohmann::json json = nlohmann::json::parse(line);
    if (!names.contains(json["name"])) continue;
    ReferenceCase& read = cases.emplace_back();
    read.name = json["name"];
    json["prompt_ids"].get_to(read.prompt.tokens);
    json["output_ids"].get_to(read.output);
    json["margins"].get_to(read.margins);
    json["first_top5"].get_to(read.first_top5);
    read.prompt.max_new_tokens = static_cast<int32_t>(read.output.size());
  }
  EXPECT_EQ(cases.size(), names.size());
  return cases;
}

std::vector<GreedyPrompt> PromptsOf(const std::vector<ReferenceCase>& cases) {
  std::vector<GreedyPrompt> prompts;
  for (const ReferenceCase& one : cases) prompts.push_back(one.prompt);
  return prompts;
}

TEST(RealModel, GreedyEqualsTheReference) {
  const std::vector<ReferenceCase> cases =
      ReadCases({"en-capital", "en-photosynthesis", "en-newline-end", "num-arith", "code-shell",
                 "list-planets", "lang-chinese", "emoji-mixed", "one-token", "one-special-token",
                 "chat-hello", "chat-gravity", "long-gpl2-600"});
  const LoadedModel loaded = LoadForTest(RealModelPath());
  const auto sampled = RunGreedy(loaded, PromptsOf(cases), {});
  for (size_t i = 0; i < cases.size(); ++i) {
    const ReferenceCase& one = cases[i];
    for (size_t step = 0; step < one.output.size(); ++step) {
      if (sampled[i][step].token == one.output[step]) continue;
      EXPECT_LT(one.margins[step], kNearTie) << one.name << " step " << step;
      break;
    }
    const std::vector<TokenLogprob>& top = sampled[i][0].top;
    ASSERT_GE(top.size(), 5u);
    for (size_t rank = 0; rank < 5; ++rank) {
      EXPECT_EQ(top[rank].token, one.first_top5[rank].first) << one.name << " rank " << rank;
      EXPECT_NEAR(top[rank].logprob, one.first_top5[rank].second, kLogprobTolerance) << one.name;
    }
  }
}

// det.2: tokens and log-probabilities, bit for bit.
class RealModelBits : public testing::Test {
 protected:
  static std::vector<GreedyPrompt> Prompts() {
    std::vector<GreedyPrompt> prompts = PromptsOf(ReadCases({"en-capital", "chat-turns-travel"}));
    // Beyond the 128 tokens of one attention tile.
    std::vector<GreedyPrompt> longer = PromptsOf(ReadCases({"long-gpl2-600"}));
    longer[0].tokens.resize(150);
    prompts.push_back(longer[0]);
    for (GreedyPrompt& prompt : prompts) prompt.max_new_tokens = 6;
    return prompts;
  }
  static std::vector<std::vector<SampledToken>> Run(const GreedyOptions& options, int threads = 2) {
    return RunGreedy(LoadForTest(RealModelPath(), threads), Prompts(), options);
  }
};

TEST_F(RealModelBits, DoNotDependOnBatchChunkBlockSizeOrThreads) {
  for (const DType kv_dtype : {DType::kF32, DType::kBF16}) {
    const auto expected = Run({.chunk = 64, .kv_dtype = kv_dtype});
    EXPECT_EQ(expected, Run({.chunk = 1, .kv_dtype = kv_dtype}));
    EXPECT_EQ(expected, Run({.block_size = 8, .chunk = 7, .kv_dtype = kv_dtype}));
    EXPECT_EQ(expected, Run({.block_size = 32, .chunk = 0, .kv_dtype = kv_dtype}));
    EXPECT_EQ(expected, Run({.block_size = 64, .batched = false, .kv_dtype = kv_dtype}));
    EXPECT_EQ(expected, Run({.chunk = 7, .kv_dtype = kv_dtype}, /*threads=*/1));
  }
}

}  // namespace
}  // namespace octavo
