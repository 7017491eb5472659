#include "scheduler/text/utf8.h"

#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace octavo {
namespace {

const std::string kFffd = "\xEF\xBF\xBD";

TEST(Utf8, AcceptsEveryScalarValueAndNoSurrogate) {
  for (uint32_t c = 0; c <= 0x10FFFF; ++c) {
    std::string text;
    AppendUtf8(c, &text);
    const bool surrogate = c >= 0xD800 && c <= 0xDFFF;
    ASSERT_EQ(FindInvalidUtf8(text).has_value(), surrogate) << c;
    if (surrogate) continue;
    ASSERT_EQ(DecodeUtf8At(text, 0), c);
    ASSERT_EQ(Utf8SequenceLength(text[0]), text.size());
    ASSERT_EQ(RepairUtf8(text), text);
  }
}

TEST(Utf8, NamesTheFirstBadByte) {
  EXPECT_EQ(FindInvalidUtf8(""), std::nullopt);
  EXPECT_EQ(FindInvalidUtf8("plain ascii, longer than a word"), std::nullopt);
  EXPECT_EQ(FindInvalidUtf8("\x80"), 0u);
  EXPECT_EQ(FindInvalidUtf8("0123456789\xFF"), 10u);
  EXPECT_EQ(FindInvalidUtf8("caf\xC3"), 3u);
  EXPECT_EQ(FindInvalidUtf8("\xC3\xA9\xC0\x80"), 2u);    // overlong NUL
  EXPECT_EQ(FindInvalidUtf8("\xE0\x9F\xBF"), 0u);        // overlong U+07FF
  EXPECT_EQ(FindInvalidUtf8("ab\xF4\x90\x80\x80"), 2u);  // U+110000
  EXPECT_EQ(FindInvalidUtf8("\xF0\x9F\x98\x80\xF0\x9F\x98"), 4u);
}

// Unicode chapter 3.9, tables 3-8 to 3-11.
TEST(Utf8, ReplacesEachMaximalSubpartOnce) {
  EXPECT_EQ(RepairUtf8("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"),
            kFffd + kFffd + kFffd + kFffd + kFffd + kFffd + kFffd + kFffd + "A");
  EXPECT_EQ(RepairUtf8("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"),
            kFffd + kFffd + kFffd + kFffd + kFffd + kFffd + kFffd + kFffd + "A");
  EXPECT_EQ(RepairUtf8("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"),
            kFffd + kFffd + kFffd + kFffd + kFffd + "A" + kFffd + kFffd + "B");
  EXPECT_EQ(RepairUtf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"),
            kFffd + kFffd + kFffd + kFffd + "A");
  EXPECT_EQ(RepairUtf8("\xE2\x82"), kFffd);
}

TEST(Utf8, HoldsBackOnlyWhatMoreBytesCouldComplete) {
  std::string out;
  EXPECT_EQ(AppendUtf8Prefix("a\xE2\x82", &out), 2u);
  EXPECT_EQ(out, "a");
  out.clear();
  EXPECT_EQ(AppendUtf8Prefix("a\xF0\x9F\x98", &out), 3u);
  EXPECT_EQ(out, "a");
  out.clear();
  EXPECT_EQ(AppendUtf8Prefix("a\xE0\x80", &out), 0u);  // E0 80 can never be completed
  EXPECT_EQ(out, "a" + kFffd + kFffd);
}

TEST(Utf8, RepairedBytesAreUtf8AndPrefixesAgree) {
  std::mt19937 random(7);
  const std::string alphabet(
      "a\x7F\x80\x8F\x90\x9F\xA0\xBF\xC1\xC2\xE0\xE1\xED\xEF\xF0\xF1\xF4\xF5");
  for (int round = 0; round < 20000; ++round) {
    std::string bytes;
    for (size_t n = random() % 12; n > 0; --n)
      bytes.push_back(alphabet[random() % alphabet.size()]);
    const std::string repaired = RepairUtf8(bytes);
    ASSERT_EQ(FindInvalidUtf8(repaired), std::nullopt);
    std::string prefix;
    const size_t rest = AppendUtf8Prefix(bytes, &prefix);
    ASSERT_LE(rest, 3u);
    ASSERT_EQ(prefix + (rest > 0 ? kFffd : ""), repaired);
    if (!FindInvalidUtf8(bytes)) {
      ASSERT_EQ(repaired, bytes);
    } else {
      ASSERT_NE(repaired, bytes);
    }
  }
}

}  // namespace
}  // namespace octavo
