#include "scheduler/engine/preemption_watch.h"

#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace octavo {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr absl::Time kStart = absl::UnixEpoch();

// Of 64 running requests of 500 tokens, 32 blocks of 16 each, a pool of 400 blocks.
CapacityReport Capacity(DType dtype = DType::kBF16) {
  CapacityReport report;
  report.geometry = *CacheGeometry::Create({30, 3, 64}, dtype, 16);
  report.num_blocks = 400;
  report.mean_tokens = 500;
  report.mean_is_measured = true;
  return report;
}

constexpr PreemptionEvent kEvent = {.request = 7,
                                    .mode = PreemptionMode::kSwap,
                                    .blocks = 12,
                                    .tokens_lost = 10,
                                    .swap_bytes = 1 << 20,
                                    .recompute_seconds = 0.5,
                                    .swap_seconds = 0.002};

TEST(PreemptionWatch, SaysNothingAboutFewOrSlowPreemptions) {
  PreemptionWatch watch;
  for (int i = 0; i < 200; ++i)
    EXPECT_EQ(watch.Record(kStart + i * absl::Seconds(3), kEvent, 4, Capacity()), std::nullopt)
        << i;
}

TEST(PreemptionWatch, AdvisesOncePerQuietTimeWhenTheySustain) {
  PreemptionWatch watch;
  int advice = 0;
  for (int i = 0; i < 100; ++i) {
    const auto text = watch.Record(kStart + i * absl::Seconds(1), kEvent, 63, Capacity());
    if (!text.has_value()) continue;
    ++advice;
    EXPECT_EQ(*text,
              "sustained preemption: the last 30 within 29s gave up 300 computed tokens and moved "
              "30.0 MiB to the host. This is capacity, not tuning: 64 requests ran on average; of "
              "500 tokens each (measured) they need 2048 blocks, and the pool has 400. Lower "
              "--max-num-seqs to 12, or give the cache 1648 blocks (579.4 MiB) more, or add cards; "
              "--kv-cache-dtype int8 would make the same bytes 775 blocks");
  }
  EXPECT_EQ(advice, 2);  // at 29 s and at 89 s
}

TEST(PreemptionWatch, AdviceFitsWhenOnlyTheLongOnesDoNot) {
  PreemptionWatch watch;
  CapacityReport capacity = Capacity(DType::kI8);
  capacity.mean_tokens = 16;
  capacity.mean_is_measured = false;
  std::string text;
  for (int i = 0; i < 30; ++i) text = watch.Record(kStart, kEvent, 9, capacity).value_or("");
  EXPECT_THAT(text, HasSubstr("of 16 tokens each (expected) they need 10 blocks"));
  EXPECT_THAT(text, HasSubstr("Lower --max-num-seqs to 9, or give the cache 1 blocks"));
  EXPECT_THAT(text, Not(HasSubstr("int8")));
}

TEST(PreemptionLine, SaysWhatHappenedAndBothCosts) {
  EXPECT_EQ(PreemptionLine(kEvent),
            "preempted request=7 mode=swap blocks=12 tokens_lost=10 why=no_free_blocks "
            "swap_bytes=1048576 recompute_ms=500.0 swap_ms=2.0");
  PreemptionEvent event = {.request = 8, .blocks = 3, .tokens_lost = 40};
  event.swap_seconds = std::numeric_limits<double>::infinity();
  event.recompute_seconds = 0.0125;
  EXPECT_EQ(PreemptionLine(event),
            "preempted request=8 mode=recompute blocks=3 tokens_lost=40 why=no_free_blocks "
            "recompute_ms=12.5");
  event.reason = PreemptionReason::kWorkerReset;
  EXPECT_EQ(PreemptionLine(event),
            "preempted request=8 mode=recompute blocks=3 tokens_lost=40 why=worker_reset");
}

}  // namespace
}  // namespace octavo
