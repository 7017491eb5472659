#include "scheduler/text/tokenizer_nfc.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "gtest/gtest.h"

namespace octavo {
namespace {

TEST(NormalizeNfc, ComposesAndOrders) {
  EXPECT_EQ(NormalizeNfc("plain \u00e9"), "plain \u00e9");
  EXPECT_EQ(NormalizeNfc("e\u0301"), "\u00e9");
  EXPECT_EQ(NormalizeNfc("q\u0307\u0323"), "q\u0323\u0307");
  EXPECT_EQ(NormalizeNfc("\u1e9b\u0323"), "\u1e9b\u0323");
  EXPECT_EQ(NormalizeNfc("\u212b"), "\u00c5");        // a singleton
  EXPECT_EQ(NormalizeNfc("\u0958"), "\u0915\u093c");  // a composition exclusion
  EXPECT_EQ(NormalizeNfc("\u0344"), "\u0308\u0301");
  EXPECT_EQ(NormalizeNfc("\u1112\u1161\u11ab"), "\ud55c");
  EXPECT_EQ(NormalizeNfc("a\u0300\u0301b\u0301"), "\u00e0\u0301b\u0301");
}

// utf8proc 2.8 alone would drop U+11A7.
TEST(NormalizeNfc, KeepsTheCodePointBeforeTheTrailingConsonants) {
  EXPECT_EQ(NormalizeNfc("\uac00\u11a7"), "\uac00\u11a7");
  EXPECT_EQ(NormalizeNfc("\u1100\u1161\u11a7\u11a8"), "\uac00\u11a7\u11a8");
  EXPECT_EQ(NormalizeNfc("\uac00\u11a8"), "\uac01");
  EXPECT_EQ(NormalizeNfc("\u11a7"), "\u11a7");
}

TEST(NormalizeNfc, SortsAMegabyteOfMarks) {
  std::string text = "a";
  std::string low;
  std::string high;
  while (text.size() < (1 << 20)) {
    text += "\u0301\u0316";  // classes 230 and 220
    low += "\u0316";
    high += "\u0301";
  }
  const auto start = std::chrono::steady_clock::now();
  // The first U+0301 composes with "a": U+0316 does not stand in its way.
  EXPECT_EQ(NormalizeNfc(text), "\u00e1" + low + high.substr(2));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

}  // namespace
}  // namespace octavo
