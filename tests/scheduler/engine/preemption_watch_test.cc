#include "scheduler/engine/preemption_watch.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace octavo {
namespace {

using ::testing::HasSubstr;

constexpr absl::Time kStart = absl::UnixEpoch();

TEST(PreemptionWatch, SaysNothingAboutFewOrSlowPreemptions) {
  PreemptionWatch watch;
  for (int i = 0; i < 200; ++i)
    EXPECT_EQ(watch.Record(kStart + i * absl::Seconds(3), 10, 4), std::nullopt) << i;
}

TEST(PreemptionWatch, AdvisesOncePerQuietTimeWhenTheySustain) {
  PreemptionWatch watch;
  int advice = 0;
  for (int i = 0; i < 100; ++i) {
    const auto text = watch.Record(kStart + i * absl::Seconds(1), 10, 64);
    if (!text.has_value()) continue;
    ++advice;
    EXPECT_THAT(*text, HasSubstr("the last 30 within 29s lost 300 computed tokens with 64"));
    EXPECT_THAT(*text, HasSubstr("lower --max-num-seqs"));
  }
  EXPECT_EQ(advice, 2);  // at 29 s and at 89 s
}

}  // namespace
}  // namespace octavo
