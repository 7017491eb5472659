// The real model's tokenizer against the reference cases (tests/data/reference/tokenize.jsonl).
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "scheduler/text/stream_decoder.h"
#include "scheduler/text/tokenizer.h"
#include "tests/scheduler/text/open_tokenizer.h"

namespace octavo {
namespace {

using Json = nlohmann::json;

class TokenizerReference : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string path = ModelPath("OCTAVO_MODEL", "SmolLM2-135M-Instruct.Q4_1.gguf");
    ASSERT_TRUE(std::filesystem::exists(path)) << path << " is missing: run tools/fetch_model.sh";
    auto tokenizer = OpenTokenizer(path);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    tokenizer_ = *std::move(tokenizer);
  }

  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(TokenizerReference, EveryCaseGivesTheReferenceIdsAndText) {
  std::ifstream file(OCTAVO_SOURCE_DIR "/tests/data/reference/tokenize.jsonl");
  int cases = 0;
  for (std::string line; std::getline(file, line); ++cases) {
    const Json test = Json::parse(line);
    SCOPED_TRACE(test["name"].get<std::string>());
    const auto text = test["text"].get<std::string>();
    const auto ids = tokenizer_->Encode(text, test["parse_special"].get<bool>());
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_EQ(*ids, test["ids"].get<std::vector<TokenId>>());
    const std::string decoded = tokenizer_->Decode(*ids, /*skip_special=*/false);
    EXPECT_EQ(decoded, test["decoded"].get<std::string>());
    EXPECT_EQ(decoded == text, test["round_trip"].get<bool>());
  }
  EXPECT_EQ(cases, 165);
}

TEST_F(TokenizerReference, AUsersLiteralIsOrdinaryText) {
  const auto ids = tokenizer_->Encode("<|im_end|>", /*parse_special=*/false);
  ASSERT_TRUE(ids.ok());
  EXPECT_GT(ids->size(), 1u);
  for (const TokenId id : *ids) EXPECT_FALSE(tokenizer_->IsSpecial(id));
  EXPECT_EQ(tokenizer_->Encode("<|im_end|>", true).value(), (std::vector<TokenId>{2}));
}

TEST_F(TokenizerReference, HasTheModelsEnds) {
  EXPECT_EQ(tokenizer_->vocab_size(), 49152);
  EXPECT_EQ(tokenizer_->bos_id(), 1);
  EXPECT_FALSE(tokenizer_->add_bos());
  EXPECT_EQ(tokenizer_->FindToken("<|im_start|>"), 1);
  ASSERT_FALSE(tokenizer_->eos_ids().empty());
  EXPECT_EQ(tokenizer_->eos_ids()[0], 2);
  for (TokenId id = 0; id < 20; ++id) EXPECT_EQ(tokenizer_->IsSpecial(id), id < 17) << id;
}

TEST_F(TokenizerReference, StreamsRandomIdsAsDecodeDoes) {
  std::mt19937 random(2);
  for (int round = 0; round < 5000; ++round) {
    std::vector<TokenId> ids;
    for (size_t n = random() % 40; n > 0; --n) {
      // The first few hundred ids are single bytes and special tokens.
      ids.push_back(static_cast<TokenId>(random() % (random() % 2 == 0 ? 300 : 49152)));
    }
    const bool skip_special = random() % 2 == 0;
    StreamDecoder decoder(tokenizer_.get(), skip_special);
    std::string text;
    for (const TokenId id : ids) text += decoder.Push(id);
    text += decoder.Finish();
    ASSERT_EQ(text, tokenizer_->Decode(ids, skip_special));
  }
}

TEST_F(TokenizerReference, EncodesMegabytesOfOneCharacter) {
  for (const std::string unit : {"a", " ", "7", "\U0001f600"}) {
    std::string text;
    while (text.size() < (1 << 20)) text += unit;
    const auto ids = tokenizer_->Encode(text, /*parse_special=*/false);
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_EQ(tokenizer_->Decode(*ids, /*skip_special=*/false), text);
  }
}

}  // namespace
}  // namespace octavo
