#include "tools/paging/paging_report.h"

#include "gtest/gtest.h"

namespace octavo::paging {
namespace {

Measurement Took(double seconds, double predicted) {
  Measurement run;
  run.result.seconds = seconds;
  run.result.prompt_tokens = 100;
  run.result.output_tokens = 1200;
  run.result.mean_running = 3;
  run.result.mean_held_slots = 200;
  run.result.mean_filled_slots = 150;
  run.predicted_seconds = predicted;
  return run;
}

PagingReport TwoPolicies() {
  PagingReport report;
  report.shape = {.requests = 4, .prompt_tokens = 100, .output_tokens = 1200};
  report.settings = {{KvAllocation::kPaged, 16}, {KvAllocation::kContiguousMax, 16}};
  report.runs = {{Took(10, 8), Took(12, 8), Took(20, 16)},
                 {Took(20, 20), Took(30, 20), Took(38, 40)}};
  report.rates.resize(3);
  return report;
}

TEST(PagingReport, GainsAreComparedRepeatByRepeat) {
  const std::vector<Gain> gains = GainsOf(TwoPolicies());
  ASSERT_EQ(gains.size(), 1u);
  EXPECT_EQ(gains[0].over.allocation, KvAllocation::kContiguousMax);
  EXPECT_DOUBLE_EQ(gains[0].achieved.min, 1.9);
  EXPECT_DOUBLE_EQ(gains[0].achieved.median, 2.0);
  EXPECT_DOUBLE_EQ(gains[0].achieved.max, 2.5);
  EXPECT_DOUBLE_EQ(gains[0].predicted->median, 2.5);
  EXPECT_DOUBLE_EQ(gains[0].achieved_of_predicted->median, 0.8);
}

TEST(PagingReport, JsonHasOneObjectForEachPolicy) {
  const nlohmann::json json = ToJson(TwoPolicies());
  EXPECT_DOUBLE_EQ(json["paged"]["tokens_per_s"], 100);
  EXPECT_DOUBLE_EQ(json["paged"]["slots_filled"], 0.75);
  EXPECT_DOUBLE_EQ(json["contiguous_max"]["tokens_per_s"], 40);
  EXPECT_DOUBLE_EQ(json["gain_over"]["contiguous_max"]["achieved"]["median"], 2.0);
  EXPECT_EQ(json["same_tokens"], true);
}

TEST(PagingReport, SeveralBlockSizesHaveOneObjectEach) {
  PagingReport report = TwoPolicies();
  report.settings[1] = {KvAllocation::kPaged, 64};
  const nlohmann::json json = ToJson(report);
  EXPECT_EQ(json["paged_16"]["block_size"], 16);
  EXPECT_EQ(json["paged_64"]["block_size"], 64);
}

TEST(PagingReport, OneWrongTokenAnywhereShows) {
  PagingReport report = TwoPolicies();
  report.runs[1][2].same_tokens = false;
  EXPECT_EQ(ToJson(report)["same_tokens"], false);
  EXPECT_NE(ToTable(report).find("NOT the same"), std::string::npos);
}

}  // namespace
}  // namespace octavo::paging
