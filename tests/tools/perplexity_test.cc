#include "tools/perplexity.h"

#include <cmath>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace octavo::tools {
namespace {

using ::testing::HasSubstr;

TEST(ParseReference, ReadsIdsAndWindows) {
  const auto text = ParseReference(
      R"({"ids": [1, 2, 3, 4], "windows": [{"start": 0, "tokens": 2, "nll": 1.5},
          {"start": 2, "tokens": 2}], "description": "ignored"})");
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->ids, (std::vector<uint32_t>{1, 2, 3, 4}));
  ASSERT_EQ(text->windows.size(), 2u);
  EXPECT_EQ(text->windows[0].reference_nll, 1.5);
  EXPECT_EQ(text->windows[1].start, 2);
  EXPECT_FALSE(text->windows[1].reference_nll.has_value());
}

TEST(ParseReference, NamesWhatIsWrong) {
  const auto error = [](const char* json) {
    return std::string(ParseReference(json).status().message());
  };
  EXPECT_THAT(error("[1"), HasSubstr("no JSON object"));
  EXPECT_THAT(error("{}"), HasSubstr("ids is no list"));
  EXPECT_THAT(error(R"({"ids": [1]})"), HasSubstr("windows is no list"));
  EXPECT_THAT(error(R"({"ids": [1, -2], "windows": [{}]})"), HasSubstr("ids[1] is no token id"));
  EXPECT_THAT(error(R"({"ids": [1, 2], "windows": [{"start": 0}]})"),
              HasSubstr("windows[0] lacks start or tokens"));
  EXPECT_THAT(error(R"({"ids": [1, 2], "windows": [{"start": 1, "tokens": 2}]})"),
              HasSubstr("windows[0] has 2 tokens from 1 on"));
  EXPECT_THAT(error(R"({"ids": [1, 2], "windows": [{"start": 0, "tokens": 2, "nll": "x"}]})"),
              HasSubstr("windows[0].nll is no number"));
}

TEST(CutText, LeavesOutARestOfOneToken) {
  EXPECT_EQ(CutText({1, 2, 3, 4, 5, 6, 7}, 3).windows.size(), 2u);
  const PerplexityText text = CutText({1, 2, 3, 4, 5, 6, 7, 8}, 3);
  ASSERT_EQ(text.windows.size(), 3u);
  EXPECT_EQ(text.windows[2].start, 6);
  EXPECT_EQ(text.windows[2].tokens, 2);
  EXPECT_TRUE(CutText({1}, 3).windows.empty());
}

TEST(Summarise, ComparesTheSameWindows) {
  std::vector<PerplexityWindow> windows = {{0, 5, 4 * std::log(10.0), 4 * std::log(11.0)},
                                           {5, 5, 4 * std::log(10.0), 4 * std::log(11.0)}};
  const PerplexitySummary summary = Summarise(windows);
  EXPECT_EQ(summary.scored, 8);
  EXPECT_NEAR(summary.perplexity, 11, 1e-9);
  EXPECT_NEAR(*summary.reference_perplexity, 10, 1e-9);
  EXPECT_NEAR(*summary.change, 0.1, 1e-9);
  windows[1].reference_nll.reset();
  EXPECT_FALSE(Summarise(windows).change.has_value());
  EXPECT_TRUE(ToJson(windows)["change"].is_null());
  EXPECT_EQ(ToJson(windows)["windows"][0]["scored"], 4);
}

}  // namespace
}  // namespace octavo::tools
