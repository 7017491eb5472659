// Gemma 3's vocabulary against sentencepiece's ids (make_gemma3_tokenize.py). Opt-in: the model is
// a download of 253 MB under terms of its own.
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "scheduler/text/tokenizer.h"
#include "tests/scheduler/text/open_tokenizer.h"

namespace octavo {
namespace {

using Json = nlohmann::json;

class TokenizerGemma : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string path = ModelPath("OCTAVO_GEMMA_MODEL", "gemma-3-270m-q4_k_m.gguf");
    if (!std::filesystem::exists(path))
      GTEST_SKIP() << path << " is missing: tools/fetch_model.sh --model gemma3-270m";
    auto tokenizer = OpenTokenizer(path);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    tokenizer_ = *std::move(tokenizer);
  }

  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(TokenizerGemma, EveryCaseGivesTheIdsOfSentencePiece) {
  std::ifstream file(OCTAVO_SOURCE_DIR "/tests/data/reference/gemma3_tokenize.jsonl");
  int cases = 0;
  for (std::string line; std::getline(file, line); ++cases) {
    const Json test = Json::parse(line);
    SCOPED_TRACE(test["name"].get<std::string>());
    const auto ids =
        tokenizer_->Encode(test["text"].get<std::string>(), test["parse_special"].get<bool>());
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_EQ(*ids, test["ids"].get<std::vector<TokenId>>());
    EXPECT_EQ(tokenizer_->Decode(*ids, /*skip_special=*/false), test["decoded"].get<std::string>());
  }
  EXPECT_EQ(cases, 338);
}

TEST_F(TokenizerGemma, HasTheModelsEnds) {
  EXPECT_EQ(tokenizer_->vocab_size(), 262144);
  EXPECT_EQ(tokenizer_->bos_id(), 2);
  EXPECT_TRUE(tokenizer_->add_bos());
  EXPECT_EQ(tokenizer_->eos_ids(), std::vector<TokenId>{1});
  EXPECT_EQ(tokenizer_->FindToken("<start_of_turn>"), 105);
  EXPECT_TRUE(tokenizer_->IsSpecial(105));
  EXPECT_FALSE(tokenizer_->IsSpecial(108));  // two newlines
}

TEST_F(TokenizerGemma, EncodesMegabytesOfOneCharacter) {
  for (const std::string unit : {"a", " ", "\u4e2d", "\U00012000", "a "}) {
    std::string text;
    while (text.size() < (1 << 20)) text += unit;
    const auto ids = tokenizer_->Encode(text, /*parse_special=*/false);
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_EQ(tokenizer_->Decode(*ids, /*skip_special=*/false), text);
  }
}

}  // namespace
}  // namespace octavo
