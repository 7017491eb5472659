#include "tools/simulate/time_series.h"

#include "gtest/gtest.h"

namespace octavo::simulate {
namespace {

Levels Running(double running) {
  Levels levels{};
  levels[kRunning] = running;
  return levels;
}

TEST(TimeSeries, AveragesOverTheTimeThatALevelLasted) {
  TimeSeries series;
  series.Add(Running(4), 3);
  series.Add(Running(8), 1);
  EXPECT_DOUBLE_EQ(series.Mean(kRunning), 5);
  EXPECT_EQ(series.Most(kRunning), 8);
  EXPECT_DOUBLE_EQ(series.seconds(), 4);
}

TEST(TimeSeries, SplitsALevelOverTheWindowsThatItCovers) {
  TimeSeries series(/*first_window_seconds=*/1);
  series.Add(Running(2), 0.5);
  series.Add(Running(4), 1.5);
  series.Add(Running(6), 0.25);
  const std::vector<Levels> points = series.Points();
  ASSERT_EQ(points.size(), 3u);
  EXPECT_NEAR(points[0][kRunning], 3, 1e-9);
  EXPECT_NEAR(points[1][kRunning], 4, 1e-9);
  EXPECT_NEAR(points[2][kRunning], 6, 1e-9);
}

TEST(TimeSeries, MergesWindowsSoThatThePointsStayBounded) {
  TimeSeries series(/*first_window_seconds=*/0.001);
  // Running equals the second it is in, so each point must be about its own middle.
  constexpr int kSteps = 100'000;
  for (int i = 0; i < kSteps; ++i) series.Add(Running(i * 0.01), 0.01);
  const std::vector<Levels> points = series.Points();
  EXPECT_LE(points.size(), TimeSeries::kMostPoints);
  EXPECT_GT(points.size(), TimeSeries::kMostPoints / 2 - 2);
  for (size_t i = 0; i + 1 < points.size(); ++i) {
    const double middle = (static_cast<double>(i) + 0.5) * series.window_seconds();
    EXPECT_NEAR(points[i][kRunning], middle, 0.02) << i;
  }
  EXPECT_NEAR(series.Mean(kRunning), 499.995, 1e-3);
}

TEST(TimeSeries, IgnoresNoTime) {
  TimeSeries series;
  series.Add(Running(9), 0);
  EXPECT_EQ(series.Mean(kRunning), 0);
  EXPECT_EQ(series.Most(kRunning), 9);
  EXPECT_TRUE(series.Points().empty());
}

}  // namespace
}  // namespace octavo::simulate
