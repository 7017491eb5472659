#include "common/clock.h"

#include "gtest/gtest.h"

namespace octavo {
namespace {

TEST(Clock, AManualClockMovesOnlyWhenTold) {
  ManualClock clock;
  const absl::Time start = clock.Now();
  EXPECT_EQ(clock.Now(), start);
  clock.Advance(absl::Seconds(3));
  EXPECT_EQ(clock.Now() - start, absl::Seconds(3));
}

TEST(Clock, TheSystemClockFollowsTheMachine) {
  const absl::Time before = absl::Now();
  const absl::Time now = SystemClock().Now();
  EXPECT_GE(now, before);
  EXPECT_LE(now, absl::Now());
}

}  // namespace
}  // namespace octavo
