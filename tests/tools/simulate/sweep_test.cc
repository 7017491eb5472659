#include "tools/simulate/sweep.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace octavo::simulate {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ParseSweep, SplitsFlagAndValues) {
  const absl::StatusOr<SweptFlag> flag = ParseSweep("--block-size=8,16");
  ASSERT_TRUE(flag.ok());
  EXPECT_EQ(flag->name, "block-size");
  EXPECT_THAT(flag->values, ElementsAre("8", "16"));
  EXPECT_THAT(ParseSweep("block-size").status().message(), HasSubstr("FLAG=VALUE"));
  EXPECT_THAT(ParseSweep("=8").status().message(), HasSubstr("FLAG=VALUE"));
}

TEST(ExpandSweep, IsTheCrossProductWithTheLastFlagFastest) {
  SimulationOptions base;
  base.seed = 9;
  const auto runs =
      ExpandSweep(base, {{"block-size", {"8", "64"}}, {"preset-device", {"h100", "a100-40"}}});
  ASSERT_TRUE(runs.ok()) << runs.status();
  ASSERT_EQ(runs->size(), 4u);
  EXPECT_THAT((*runs)[1].values, ElementsAre("8", "a100-40"));
  EXPECT_EQ((*runs)[1].options.scheduler.block_size, 8);
  EXPECT_EQ((*runs)[1].options.device_preset, "a100-40");
  EXPECT_EQ((*runs)[2].options.scheduler.block_size, 64);
  EXPECT_EQ((*runs)[2].options.device_preset, "h100");
  EXPECT_EQ((*runs)[3].options.seed, 9u);
}

TEST(ExpandSweep, RefusesWhatTheFlagItselfWouldRefuse) {
  EXPECT_THAT(ExpandSweep({}, {{"block-size", {"7"}}}).status().message(),
              HasSubstr("block-size=7"));
  EXPECT_THAT(ExpandSweep({}, {{"blok-size", {"8"}}}).status().message(), HasSubstr("blok-size"));
}

TEST(ExpandSweep, BoundsTheRuns) {
  SweptFlag seeds{.name = "seed"};
  for (int i = 0; i < 21; ++i) seeds.values.push_back(std::to_string(i));
  EXPECT_TRUE(ExpandSweep({}, {seeds}).ok());
  EXPECT_THAT(ExpandSweep({}, {seeds, seeds}).status().message(),
              HasSubstr("441 runs; at most 400"));
}

TEST(SweepTable, HasALineForEachRun) {
  SimulationOptions base;
  base.requests = 20;
  const std::vector<SweptFlag> flags = {{"block-size", {"8", "32"}}};
  std::vector<SweepResult> results;
  const auto runs = ExpandSweep(base, flags);
  ASSERT_TRUE(runs.ok());
  for (const SweepRun& run : *runs) {
    const Trace trace = *LoadTrace(run.options);
    SimulationSetup setup = *MakeSetup(run.options, trace);
    SimulationReport report = Simulation(setup, trace).Run(nullptr);
    results.push_back({run.values, std::move(setup), std::move(report)});
  }
  const std::string table = ToTable(flags, results);
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 4);
  EXPECT_THAT(table, HasSubstr("block-size"));
  const nlohmann::ordered_json json = ToJson(flags, results);
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(json[1]["sweep"]["block-size"], "32");
  EXPECT_EQ(json[1]["capacity"]["block_size"], 32);
  EXPECT_EQ(json[1]["requests_finished"], 20);
}

}  // namespace
}  // namespace octavo::simulate
