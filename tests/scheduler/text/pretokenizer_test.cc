#include "scheduler/text/pretokenizer.h"

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace octavo {
namespace {

using ::testing::HasSubstr;

const char* const kNames[] = {"default", "gpt-2", "gpt2", "smollm", "llama-bpe", "qwen2", "tekken"};

std::vector<std::string> Split(absl::string_view name, absl::string_view text,
                               const std::vector<PreTokenizerPass>& passes = {}) {
  const auto pretokenizer = PreTokenizer::Create(name, passes);
  if (!pretokenizer.ok()) return {pretokenizer.status().ToString()};
  PreTokenizer::Scratch scratch;
  std::vector<absl::string_view> pieces;
  const absl::Status status = (*pretokenizer)->Split(text, &scratch, &pieces);
  if (!status.ok()) return {status.ToString()};
  EXPECT_EQ(absl::StrJoin(pieces, ""), text);
  std::vector<std::string> result;
  for (const absl::string_view piece : pieces) {
    EXPECT_FALSE(piece.empty());
    result.emplace_back(piece);
  }
  return result;
}

using Pieces = std::vector<std::string>;

TEST(PreTokenizer, SplitsLikeGpt2) {
  EXPECT_EQ(Split("gpt-2", "Hello  world's 42nd  "),
            (Pieces{"Hello", " ", " world", "'s", " 42", "nd", "  "}));
  EXPECT_EQ(Split("gpt2", "IT'S x\n\n  y"), (Pieces{"IT", "'", "S", " x", "\n\n ", " y"}));
}

TEST(PreTokenizer, SmollmSeesTheEndOfAStretchAsTheEndOfText) {
  EXPECT_EQ(Split("smollm", "x  42"), (Pieces{"x", "  ", "4", "2"}));
  EXPECT_EQ(Split("smollm", "x  y"), (Pieces{"x", " ", " y"}));
  EXPECT_EQ(Split("smollm", "a\u00b2\u0663b"), (Pieces{"a", "\u00b2", "\u0663", "b"}));
}

TEST(PreTokenizer, Llama3GroupsDigitsByThreeAndQwen2SplitsThem) {
  EXPECT_EQ(Split("llama-bpe", "I'M 12345.\n\nok"),
            (Pieces{"I", "'M", " ", "123", "45", ".\n\n", "ok"}));
  EXPECT_EQ(Split("qwen2", "I'M 123"), (Pieces{"I", "'M", " ", "1", "2", "3"}));
}

TEST(PreTokenizer, DefaultIsTakenWithoutNameAndPasses) {
  EXPECT_EQ(Split("", "a==b 12345"), (Pieces{"a", "==", "b", " ", "123", "45"}));
  EXPECT_EQ(Split("default", "a==b 12345"), Split("", "a==b 12345"));
}

TEST(PreTokenizer, RunsItsOwnPassesInsideEachPiece) {
  EXPECT_EQ(Split("", "ab12cd", {{"[0-9]+"}, {"[a-c]"}}), (Pieces{"a", "b", "12", "c", "d"}));
  EXPECT_EQ(Split("", "ab", {{"$|^a"}}), (Pieces{"a", "b"}));
  EXPECT_EQ(Split("", "ab\u00e9c", {{"x*"}}), (Pieces{"a", "b", "\u00e9", "c"}));  // empty matches
  EXPECT_EQ(Split("gpt-2", "ab 1", {{"b"}}), (Pieces{"ab", " 1"}));                // a name wins
}

// U+180E lost the White_Space property in Unicode 6.3; PCRE2's \s still has it.
TEST(PreTokenizer, SpacesAreUnicodes) {
  EXPECT_EQ(Split("gpt-2", "a\u180e!"), (Pieces{"a", "\u180e!"}));
  EXPECT_EQ(Split("gpt-2", "a\u0085\u2003!"), (Pieces{"a", "\u0085", "\u2003", "!"}));
  EXPECT_EQ(Split("", "a\\s b", {{"\\\\s"}}), (Pieces{"a", "\\s", " b"}));
}

TEST(PreTokenizer, KeepsNulBytes) {
  EXPECT_EQ(Split("gpt-2", absl::string_view("a\0b", 3)), (Pieces{"a", std::string(1, '\0'), "b"}));
}

TEST(PreTokenizer, RefusesWhatItCannotRun) {
  EXPECT_THAT(PreTokenizer::Create("nope", {}).status().message(),
              testing::AllOf(HasSubstr("nope"), HasSubstr("llama-bpe")));
  const absl::Status broken = PreTokenizer::Create("", {{"a"}, {"b("}}).status();
  EXPECT_EQ(broken.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(broken.message(), testing::AllOf(HasSubstr("pass 1"), HasSubstr("byte 2")));
  EXPECT_FALSE(PreTokenizer::Create("", {{"a\xFF"}}).ok());
  EXPECT_FALSE(PreTokenizer::Create("", {{std::string(1 << 17, 'a')}}).ok());
  EXPECT_FALSE(PreTokenizer::Create("", std::vector<PreTokenizerPass>(17, {"a"})).ok());
}

TEST(PreTokenizer, GivesUpOnAPatternThatNeverEnds) {
  const auto pretokenizer = PreTokenizer::Create("", {{"(a|aa|aaa)+[bc]"}});
  ASSERT_TRUE(pretokenizer.ok());
  PreTokenizer::Scratch scratch;
  std::vector<absl::string_view> pieces;
  EXPECT_EQ((*pretokenizer)->Split(std::string(200, 'a'), &scratch, &pieces).code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(PreTokenizer, FinishesMegabytesOfOneCharacter) {
  const auto start = std::chrono::steady_clock::now();
  for (const char* name : kNames) {
    const auto pretokenizer = PreTokenizer::Create(name, {});
    ASSERT_TRUE(pretokenizer.ok());
    PreTokenizer::Scratch scratch;
    for (const std::string unit : {"a", "A", " ", "\n", "7", "!", "'", "\u4e2d", "\u0301",
                                   "\U0001f600", "\t\n", "a ", "'s"}) {
      std::string text;
      while (text.size() < (1 << 20)) text += unit;
      for (const char* tail : {"", "x", " x"}) {
        const std::string whole = text + tail;
        std::vector<absl::string_view> pieces;
        const absl::Status status = (*pretokenizer)->Split(whole, &scratch, &pieces);
        ASSERT_TRUE(status.ok()) << name << " " << unit << " " << status;
        size_t bytes = 0;
        for (const absl::string_view piece : pieces) bytes += piece.size();
        ASSERT_EQ(bytes, whole.size());
      }
    }
  }
  // 273 megabytes; a quadratic pattern would need hours.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(120));
}

}  // namespace
}  // namespace octavo
