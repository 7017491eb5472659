#include "tools/simulate/traffic.h"

#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace octavo::simulate {
namespace {

using ::testing::HasSubstr;

LengthCounts Counts() { return {.buckets = {{10, 50}, {20, 0}, {30, 40}, {100, 10}}}; }

TEST(LengthCounts, PercentilesAreBucketEnds) {
  const LengthCounts counts = Counts();
  EXPECT_EQ(counts.Percentile(0.5), 10);
  EXPECT_EQ(counts.Percentile(0.51), 30);
  EXPECT_EQ(counts.Percentile(0.9), 30);
  EXPECT_EQ(counts.Percentile(0.99), 100);
  EXPECT_EQ(counts.Percentile(1), 100);
  EXPECT_DOUBLE_EQ(counts.ShareAbove(30), 0.10);
  EXPECT_DOUBLE_EQ(counts.ShareAbove(100), 0);
  EXPECT_DOUBLE_EQ(counts.Mean(), (50 * 5.5 + 40 * 25.5 + 10 * 65.5) / 100);
  EXPECT_EQ(LengthCounts().Percentile(0.5), 0);
}

TEST(TrafficOf, IsExactAndFindsTheBusiestMinute) {
  Trace trace{.name = "t"};
  for (int i = 0; i < 4; ++i) {
    trace.requests.push_back(
        {.arrival_seconds = i * 60.0, .prompt_tokens = 100 + i, .output_tokens = 7});
  }
  for (int i = 0; i < 56; ++i) {
    trace.requests.push_back({.arrival_seconds = 200, .prompt_tokens = 500, .output_tokens = 9});
  }
  const Traffic traffic = TrafficOf(trace);
  EXPECT_DOUBLE_EQ(traffic.busiest_requests_per_second, 57 / 60.0);
  EXPECT_NEAR(traffic.requests_per_second, 59 / 200.0, 1e-9);
  EXPECT_EQ(traffic.prompt.Percentile(4 / 60.0), 103);
  EXPECT_EQ(traffic.total.Percentile(1), 509);
  EXPECT_NEAR(traffic.output.Mean(), (4 * 7 + 56 * 9) / 60.0, 1e-9);
}

TEST(ParseTraffic, ReadsWhatToJsonWrites) {
  const Traffic traffic{.source = "m",
                        .requests_per_second = 2.5,
                        .busiest_requests_per_second = 4,
                        .prompt = Counts(),
                        .output = {.buckets = {{5, 100}}},
                        .total = Counts()};
  const absl::StatusOr<Traffic> read = ParseTraffic(ToJson(traffic).dump());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(ToJson(*read).dump(), ToJson(traffic).dump());
}

TEST(ParseTraffic, NamesWhatIsWrong) {
  EXPECT_THAT(ParseTraffic("{}").status().message(), HasSubstr("requests_per_second is missing"));
  const std::string start =
      R"({"requests_per_second": 1, "busiest_requests_per_second": 1, "format": )";
  EXPECT_THAT(ParseTraffic(start + "\"x\"}").status().message(), HasSubstr("octavo-traffic-1"));
  const std::string good = start + R"("octavo-traffic-1", "prompt_tokens": )";
  EXPECT_THAT(ParseTraffic(good + "[[5, 1], [5, 2]]}").status().message(),
              HasSubstr("prompt_tokens: up_to is 5 after 5"));
  EXPECT_THAT(ParseTraffic(good + "[[5, 0]]}").status().message(), HasSubstr("counts no request"));
  EXPECT_THAT(ParseTraffic(good + "[[5, -1]]}").status().message(), HasSubstr("[5,-1]"));
}

TEST(DrawTrace, HasTheDistributionThatItWasDrawnFrom) {
  const Traffic traffic{.source = "m",
                        .prompt = Counts(),
                        .output = {.buckets = {{4, 0}, {5, 100}}},
                        .total = {.buckets = {{105, 100}}}};
  const Trace trace = DrawTrace(traffic, 50'000, 1);
  int64_t short_prompts = 0;
  int64_t long_prompts = 0;
  for (const TraceRequest& request : trace.requests) {
    ASSERT_EQ(request.output_tokens, 5);
    ASSERT_TRUE(request.prompt_tokens >= 1 && request.prompt_tokens <= 100);
    ASSERT_FALSE(request.prompt_tokens > 10 && request.prompt_tokens <= 20);
    short_prompts += request.prompt_tokens <= 10 ? 1 : 0;
    long_prompts += request.prompt_tokens > 30 ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(short_prompts), 25'000, 450);  // 4 standard deviations
  EXPECT_NEAR(static_cast<double>(long_prompts), 5'000, 270);
}

TEST(DrawTrace, NeverExceedsTheLongestTotal) {
  const Traffic traffic{.source = "m",
                        .prompt = {.buckets = {{99, 0}, {100, 1}}},
                        .output = {.buckets = {{99, 0}, {100, 1}}},
                        .total = {.buckets = {{150, 1}}}};
  const Trace trace = DrawTrace(traffic, 10, 1);
  EXPECT_EQ(trace.LongestRequest(), 150);
}

}  // namespace
}  // namespace octavo::simulate
