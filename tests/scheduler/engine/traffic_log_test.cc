#include "scheduler/engine/traffic_log.h"

#include "gtest/gtest.h"

namespace octavo {
namespace {

TEST(LengthHistogram, BucketsFollowEachOtherWithoutGaps) {
  int64_t above = 0;
  for (size_t bucket = 0; bucket < LengthHistogram::kNumBuckets; ++bucket) {
    const int64_t up_to = LengthHistogram::UpTo(bucket);
    ASSERT_GT(up_to, above);
    EXPECT_EQ(LengthHistogram::BucketOf(above + 1), bucket);
    EXPECT_EQ(LengthHistogram::BucketOf(up_to), bucket);
    // An eighth of a doubling at most.
    EXPECT_LE(static_cast<double>(up_to - above), 1 + static_cast<double>(above) / 8);
    above = up_to;
  }
  EXPECT_EQ(LengthHistogram::UpTo(15), 16);
  EXPECT_EQ(LengthHistogram::UpTo(23), 32);
  EXPECT_EQ(LengthHistogram::UpTo(LengthHistogram::kNumBuckets - 1), int64_t{1} << 24);
  EXPECT_EQ(LengthHistogram::BucketOf(int64_t{1} << 40), LengthHistogram::kNumBuckets - 1);
}

TEST(TrafficLog, CountsLengthsOfEndedRequests) {
  TrafficLog log;
  log.Ended(100, 20);
  log.Ended(7, 1);
  log.Ended(50, 0);  // aborted in the queue
  const TrafficReport report = log.report();
  EXPECT_EQ(report.prompt.count(LengthHistogram::BucketOf(100)), 1u);
  EXPECT_EQ(report.prompt.count(LengthHistogram::BucketOf(50)), 0u);
  EXPECT_EQ(report.output.count(LengthHistogram::BucketOf(1)), 1u);
  EXPECT_EQ(report.total.count(LengthHistogram::BucketOf(120)), 1u);
}

TEST(TrafficLog, KnowsTheMeanRateAndTheBusiestMinute) {
  TrafficLog log;
  const absl::Time start = absl::UnixEpoch() + absl::Hours(1);
  EXPECT_EQ(log.report().per_second(), 0);
  for (int i = 0; i < 10; ++i) log.Arrived(start + absl::Seconds(i));
  for (int i = 0; i < 30; ++i) log.Arrived(start + absl::Seconds(130) + absl::Milliseconds(i));
  log.Arrived(start + absl::Seconds(400));
  const TrafficReport report = log.report();
  EXPECT_EQ(report.arrivals, 41u);
  EXPECT_DOUBLE_EQ(report.seconds, 400);
  EXPECT_DOUBLE_EQ(report.per_second(), 0.1);
  EXPECT_DOUBLE_EQ(report.busiest_per_second, 0.5);
}

TEST(TrafficLog, ABurstShorterThanAMinuteIsNotThinned) {
  TrafficLog log;
  for (int i = 0; i < 11; ++i) log.Arrived(absl::UnixEpoch() + absl::Seconds(i));
  EXPECT_DOUBLE_EQ(log.report().busiest_per_second, 1);
}

}  // namespace
}  // namespace octavo
