#include "tools/simulate/block_plot.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace octavo::simulate {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TimeSeries SomeRun() {
  TimeSeries series(/*first_window_seconds=*/1);
  for (int i = 0; i < 100; ++i) {
    Levels levels{};
    levels[kActiveBlocks] = i;
    levels[kCachedBlocks] = 10;
    levels[kFreeBlocks] = 190 - i;
    levels[kFilledSlots] = 8 * i;
    levels[kRunning] = i / 4;
    levels[kWaiting] = 30;
    series.Add(levels, 1);
  }
  return series;
}

// What an XML parser would refuse: tags that do not nest, values without quotes, bare ampersands.
void ExpectWellFormed(const std::string& svg) {
  std::vector<std::string> open;
  size_t at = svg.find("?>");
  ASSERT_NE(at, std::string::npos);
  at += 2;
  while ((at = svg.find('<', at)) != std::string::npos) {
    const size_t end = svg.find('>', at);
    ASSERT_NE(end, std::string::npos);
    const std::string tag = svg.substr(at + 1, end - at - 1);
    ASSERT_EQ(tag.find('<'), std::string::npos) << tag;
    int quotes = 0;
    for (const char c : tag) quotes += c == '\'' ? 1 : 0;
    EXPECT_EQ(quotes % 2, 0) << tag;
    const std::string name =
        tag.substr(tag[0] == '/' ? 1 : 0, tag.find_first_of(" /", 1) - (tag[0] == '/' ? 1 : 0));
    if (tag[0] == '/') {
      ASSERT_FALSE(open.empty()) << tag;
      EXPECT_EQ(open.back(), name);
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(name);
    }
    at = end;
  }
  EXPECT_TRUE(open.empty());
  for (size_t amp = svg.find('&'); amp != std::string::npos; amp = svg.find('&', amp + 1)) {
    const std::string entity = svg.substr(amp, svg.find(';', amp) - amp + 1);
    EXPECT_THAT(entity, ::testing::AnyOf("&amp;", "&lt;", "&gt;", "&quot;"));
  }
}

TEST(PlotBlocks, IsWellFormedAndLabelled) {
  const std::string svg = PlotBlocks(SomeRun(), "a <b> & \"c\"", 200, 16);
  ExpectWellFormed(svg);
  EXPECT_THAT(svg, HasSubstr("a &lt;b&gt; &amp; &quot;c&quot;"));
  EXPECT_THAT(svg, HasSubstr("KV blocks"));
  EXPECT_THAT(svg, HasSubstr("requests"));
  EXPECT_THAT(svg, HasSubstr("simulated time, seconds"));
  for (const char* entry : {"active: slots filled", "active: slots empty", "cached prefixes",
                            "free", "running", "waiting"}) {
    EXPECT_THAT(svg, HasSubstr(entry));
  }
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
}

TEST(PlotBlocks, ChoosesTheUnitOfTime) {
  TimeSeries series;
  series.Add(Levels{}, 8 * 3600);
  EXPECT_THAT(PlotBlocks(series, "t", 10, 16), HasSubstr("simulated time, hours"));
}

TEST(PlotBlocks, DrawsARunOfNoTime) {
  const std::string svg = PlotBlocks(TimeSeries(), "nothing", 1, 16);
  ExpectWellFormed(svg);
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace octavo::simulate
