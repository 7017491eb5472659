#include "scheduler/text/stream_decoder.h"

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "scheduler/text/utf8.h"
#include "tests/scheduler/text/tokenizer_test_spec.h"

namespace octavo {
namespace {

class StreamDecoderTest : public ::testing::Test {
 protected:
  StreamDecoderTest() : tokenizer_(*Tokenizer::Create(TestSpec())) {}
  const std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(StreamDecoderTest, HoldsBackHalfCharacters) {
  StreamDecoder decoder(tokenizer_.get(), /*skip_special=*/true);
  EXPECT_EQ(decoder.Push('a'), "a");
  EXPECT_EQ(decoder.Push(264), "");  // F0 9F 98
  EXPECT_EQ(decoder.pending_bytes(), 3u);
  EXPECT_EQ(decoder.Push(0x80), "\U0001f600");
  EXPECT_EQ(decoder.pending_bytes(), 0u);
  EXPECT_EQ(decoder.Finish(), "");
}

TEST_F(StreamDecoderTest, LosesNoByteAtTheEnd) {
  StreamDecoder decoder(tokenizer_.get(), /*skip_special=*/true);
  EXPECT_EQ(decoder.Push(264), "");
  EXPECT_EQ(decoder.Finish(), "\uFFFD");
  EXPECT_EQ(decoder.Finish(), "");
  EXPECT_EQ(decoder.Push('b'), "b");
}

TEST_F(StreamDecoderTest, ReplacesWhatCannotBeCompleted) {
  StreamDecoder decoder(tokenizer_.get(), /*skip_special=*/true);
  EXPECT_EQ(decoder.Push(0xE2), "");
  EXPECT_EQ(decoder.Push('x'), "\uFFFDx");
  EXPECT_EQ(decoder.Push(0xFF), "\uFFFD");
}

TEST_F(StreamDecoderTest, HidesSpecialTokensWhenAsked) {
  StreamDecoder hiding(tokenizer_.get(), /*skip_special=*/true);
  EXPECT_EQ(hiding.Push(0xC3), "");
  EXPECT_EQ(hiding.Push(266), "");
  EXPECT_EQ(hiding.Push(0xA9), "\u00e9");
  EXPECT_EQ(hiding.Push(268), "<tool>");
  StreamDecoder showing(tokenizer_.get(), /*skip_special=*/false);
  EXPECT_EQ(showing.Push(0xC3), "");
  EXPECT_EQ(showing.Push(266), "\uFFFD<|end|>");
}

TEST_F(StreamDecoderTest, ConcatenationIsDecodeOfAllTokens) {
  std::mt19937 random(5);
  const std::vector<TokenId> awkward = {0xC3, 0xA9, 0xE2, 0x82, 0xAC, 0xF0, 0x9F, 0x98, 0x80,
                                        0xED, 0xA0, 0xF4, 0x90, 263,  264,  266,  268,  -1};
  for (int round = 0; round < 20000; ++round) {
    std::vector<TokenId> ids;
    for (size_t n = random() % 16; n > 0; --n) {
      ids.push_back(random() % 2 == 0 ? awkward[random() % awkward.size()]
                                      : static_cast<TokenId>(random() % 275));
    }
    const bool skip_special = random() % 2 == 0;
    StreamDecoder decoder(tokenizer_.get(), skip_special);
    std::string text;
    for (const TokenId id : ids) {
      const std::string part = decoder.Push(id);
      ASSERT_EQ(FindInvalidUtf8(part), std::nullopt);
      ASSERT_LE(decoder.pending_bytes(), 3u);
      text += part;
    }
    text += decoder.Finish();
    ASSERT_EQ(text, tokenizer_->Decode(ids, skip_special));
  }
}

}  // namespace
}  // namespace octavo
