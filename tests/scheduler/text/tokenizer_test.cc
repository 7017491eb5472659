#include "scheduler/text/tokenizer.h"

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/scheduler/text/tokenizer_test_spec.h"

namespace octavo {
namespace {

using ::testing::HasSubstr;
using Ids = std::vector<TokenId>;

constexpr TokenId kEnd = 266;
constexpr TokenId kEndBang = 267;
constexpr TokenId kTool = 268;

class TokenizerTest : public ::testing::Test {
 protected:
  TokenizerTest() : tokenizer_(*Tokenizer::Create(TestSpec())) {}

  Ids Encode(absl::string_view text, bool parse_special = false) {
    return tokenizer_->Encode(text, parse_special).value();
  }
  const std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(TokenizerTest, MergesWithinPieces) {
  EXPECT_EQ(Encode("hello hello"), (Ids{261, 262}));
  EXPECT_EQ(Encode("aaaaa"), (Ids{257, 'a'}));
  EXPECT_EQ(Encode("a1a"), (Ids{'a', '1', 'a'}));
  EXPECT_EQ(Encode(""), Ids{});
}

TEST_F(TokenizerTest, FindsSpecialTokensOnlyWhenAsked) {
  EXPECT_EQ(Encode("a<|end|>a", true), (Ids{'a', kEnd, 'a'}));
  EXPECT_EQ(Encode("<|end|>", false), (Ids{'<', '|', 'e', 'n', 'd', '|', '>'}));
  EXPECT_EQ(Encode("<|end|><|end|>", true), (Ids{kEnd, kEnd}));
}

TEST_F(TokenizerTest, TakesTheLongestOfTheLeftmost) {
  EXPECT_EQ(Encode("<|end|>!", true), (Ids{kEndBang}));
  EXPECT_EQ(Encode("<|end<|end|>!!", true), (Ids{'<', '|', 'e', 'n', 'd', kEndBang, '!'}));
}

TEST_F(TokenizerTest, AlwaysFindsAddedTokensThatAreNotSpecial) {
  EXPECT_EQ(Encode("<tool>", false), (Ids{kTool}));
  EXPECT_EQ(Encode("<tool>", true), (Ids{kTool}));
  EXPECT_EQ(Encode("<|end|><tool>", false), (Ids{'<', '|', 'e', 'n', 'd', '|', '>', kTool}));
}

TEST_F(TokenizerTest, SegmentsDecideWhereSpecialTokensCount) {
  const auto encode = [&](std::vector<TextSegment> segments) {
    return tokenizer_->EncodeSegments(segments).value();
  };
  EXPECT_EQ(encode({{"<|end|>", true}, {"<|end|>", false}, {"<|end|>", true}}),
            (Ids{kEnd, '<', '|', 'e', 'n', 'd', '|', '>', kEnd}));
  // A user cannot complete a literal that the template began, nor the other way round.
  EXPECT_EQ(encode({{"<|en", true}, {"d|>", false}}), Encode("<|end|>"));
  EXPECT_EQ(encode({{"<|end|>", true}, {"!", false}}), (Ids{kEnd, '!'}));
  EXPECT_EQ(encode({{"<|en", false}, {"d|>", true}}), Encode("<|end|>"));
  EXPECT_EQ(encode({{"<|en", true}, {"", false}, {"d|>", true}}), (Ids{kEnd}));
  // Added tokens, pieces and merges cross segments.
  EXPECT_EQ(encode({{"a<to", true}, {"ol>a", false}}), (Ids{'a', kTool, 'a'}));
  EXPECT_EQ(encode({{"x he", true}, {"llo", false}, {"a", true}}), Encode("x helloa"));
  EXPECT_EQ(encode({}), Ids{});
}

TEST_F(TokenizerTest, RefusesTextThatIsNotUtf8AndNamesTheOffset) {
  const absl::Status status = tokenizer_->Encode("abc\xFFz", false).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("byte 3"));
  EXPECT_THAT(tokenizer_->Encode("caf\xC3", true).status().message(), HasSubstr("byte 3"));
  const TextSegment segments[] = {{"ab", true}, {"\xED\xA0\x80", false}};
  EXPECT_THAT(tokenizer_->EncodeSegments(segments).status().message(), HasSubstr("byte 2"));
}

TEST_F(TokenizerTest, RefusesTextOverTheLimit) {
  const std::string text(Tokenizer::kMaxTextBytes + 1, ' ');
  EXPECT_EQ(tokenizer_->Encode(text, false).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(TokenizerTest, KnowsEachTokensBytes) {
  EXPECT_EQ(tokenizer_->vocab_size(), 270);
  EXPECT_EQ(tokenizer_->TokenBytes(0xFF), "\xFF");
  EXPECT_EQ(tokenizer_->TokenBytes(0), std::string(1, '\0'));
  EXPECT_EQ(tokenizer_->TokenBytes(262), " hello");
  EXPECT_EQ(tokenizer_->TokenBytes(kEnd), "<|end|>");
  EXPECT_EQ(tokenizer_->TokenBytes(269), "\u00e9\u00e9");
  EXPECT_EQ(tokenizer_->TokenBytes(-1), "");
  EXPECT_EQ(tokenizer_->TokenBytes(270), "");
  EXPECT_TRUE(tokenizer_->IsSpecial(kEnd));
  EXPECT_FALSE(tokenizer_->IsSpecial(kTool));
  EXPECT_FALSE(tokenizer_->IsSpecial(-1));
  EXPECT_FALSE(tokenizer_->IsSpecial(1 << 30));
  EXPECT_EQ(tokenizer_->FindToken(" hello"), 262);
  EXPECT_EQ(tokenizer_->FindToken("<|end|>"), kEnd);
  EXPECT_EQ(tokenizer_->FindToken("nothing"), std::nullopt);
  EXPECT_EQ(tokenizer_->bos_id(), kEnd);
  EXPECT_FALSE(tokenizer_->add_bos());
  EXPECT_EQ(tokenizer_->eos_ids(), (Ids{kEnd, kEndBang}));
}

TEST_F(TokenizerTest, DecodesAndHidesSpecialTokens) {
  const Ids ids = {'a', kEnd, 0xC3, 0xA9, kTool, 0xE2, 0x82};
  EXPECT_EQ(tokenizer_->Decode(ids, false), "a<|end|>\u00e9<tool>\uFFFD");
  EXPECT_EQ(tokenizer_->Decode(ids, true), "a\u00e9<tool>\uFFFD");
}

TEST(Tokenizer, LeavesOutBytesThatHaveNoToken) {
  TokenizerSpec spec = TestSpec();
  spec.tokens[4].clear();
  const auto tokenizer = *Tokenizer::Create(spec);
  EXPECT_EQ(tokenizer->Encode("he\x04ll\x04o", false).value(), (Ids{258, 259, 'o'}));
  EXPECT_EQ(tokenizer->Encode("!\x04!", false).value(), (Ids{'!', '!'}));
  EXPECT_EQ(tokenizer->Encode("\x04", false).value(), Ids{});
}

TEST(Tokenizer, WholePiecesWinWithIgnoreMerges) {
  TokenizerSpec spec = TestSpec();
  spec.tokens.push_back(AlphabetOfBytes(" whole"));
  EXPECT_NE((*Tokenizer::Create(spec))->Encode(" whole", false).value(), (Ids{270}));
  spec.ignore_merges = true;
  EXPECT_EQ((*Tokenizer::Create(spec))->Encode(" whole", false).value(), (Ids{270}));
  // A special token is no exception to parse_special.
  spec.pre_name.clear();
  spec.passes = {{"^.*$"}};
  EXPECT_EQ((*Tokenizer::Create(spec))->Encode("<|end|>", false).value().size(), 7u);
}

TEST(Tokenizer, NormalizesBetweenAddedTokens) {
  TokenizerSpec spec = TestSpec();
  spec.normalize_nfc = true;
  const auto tokenizer = *Tokenizer::Create(spec);
  EXPECT_EQ(tokenizer->Encode("e\u0301", false).value(), (Ids{0xC3, 0xA9}));
  // U+0338 would turn ">" into U+226F.
  EXPECT_EQ(tokenizer->Encode("<tool>\u0338", false).value(), (Ids{kTool, 0xCC, 0xB8}));
}

TEST(Tokenizer, TakesAddedTokensBehindTheVocabulary) {
  TokenizerSpec spec = TestSpec();
  spec.added.push_back({300, "<far>", true});
  const auto tokenizer = *Tokenizer::Create(spec);
  EXPECT_EQ(tokenizer->vocab_size(), 301);
  EXPECT_EQ(tokenizer->TokenBytes(280), "");
  EXPECT_EQ(tokenizer->Encode("<far>", true).value(), (Ids{300}));
}

TEST(Tokenizer, KeepsTheTextOfTokensOutsideTheAlphabet) {
  TokenizerSpec spec = TestSpec();
  spec.tokens.push_back("\u2581x y");
  const auto tokenizer = *Tokenizer::Create(spec);
  EXPECT_EQ(tokenizer->TokenBytes(270), "\u2581x y");
}

TEST(Tokenizer, RefusesSpecsThatContradictThemselves) {
  const auto message = [](auto&& change) {
    TokenizerSpec spec = TestSpec();
    change(&spec);
    const absl::Status status = Tokenizer::Create(spec).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(message([](auto* spec) { spec->tokens.clear(); }), HasSubstr("empty"));
  EXPECT_THAT(message([](auto* spec) { spec->merges.emplace_back("a", "zz"); }),
              testing::AllOf(HasSubstr("merge 10"), HasSubstr("\"zz\"")));
  EXPECT_THAT(message([](auto* spec) { spec->merges.emplace_back("a", "b"); }),
              HasSubstr("\"ab\""));
  EXPECT_THAT(message([](auto* spec) { spec->eos_ids = {270}; }),
              testing::AllOf(HasSubstr("end of text"), HasSubstr("270")));
  EXPECT_THAT(message([](auto* spec) { spec->bos_id = -3; }), HasSubstr("-3"));
  EXPECT_THAT(message([](auto* spec) { spec->added[0].id = -1; }), HasSubstr("<|end|>"));
  EXPECT_THAT(message([](auto* spec) { spec->added[0].id = 1 << 30; }), HasSubstr("1073741824"));
  EXPECT_THAT(message([](auto* spec) { spec->added[0].text.clear(); }), HasSubstr("empty"));
  EXPECT_THAT(message([](auto* spec) { spec->added[0].text = "\xFF"; }), HasSubstr("UTF-8"));
  EXPECT_THAT(message([](auto* spec) { spec->pre_name = "unheard-of"; }), HasSubstr("unheard-of"));
  EXPECT_THAT(message([](auto* spec) {
                spec->add_bos = true;
                spec->bos_id.reset();
              }),
              HasSubstr("beginning-of-text"));
}

TEST_F(TokenizerTest, FinishesMegabytesOfOneCharacter) {
  const auto start = std::chrono::steady_clock::now();
  for (const std::string unit :
       {"a", " ", "7", "\U0001f600", "<", "<|end|>", "<|end|", "he", "\u0301\u0316"}) {
    std::string text;
    while (text.size() < (1 << 20)) text += unit;
    const auto ids = tokenizer_->Encode(text, /*parse_special=*/true);
    ASSERT_TRUE(ids.ok()) << unit << " " << ids.status();
    EXPECT_EQ(tokenizer_->Decode(*ids, /*skip_special=*/false), text);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

TEST_F(TokenizerTest, IsSafeToUseFromManyThreads) {
  const std::string text = "hello hello <tool> aaaa 12 \U0001f600 <|end|>";
  const Ids want = Encode(text, true);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 500; ++round) EXPECT_EQ(Encode(text, true), want);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace octavo
