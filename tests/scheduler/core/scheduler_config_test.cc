#include "scheduler/core/scheduler_config.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/scheduler/core/scheduler_harness.h"

namespace octavo {
namespace {

using testing::HasSubstr;

std::string Refusal(const SchedulerConfig& config) {
  const absl::Status status = Validate(config);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(SchedulerConfig, AcceptsAPoolThatHoldsOneRequestExactly) {
  SchedulerConfig config = SmallConfig();
  config.num_blocks = config.max_model_len / config.block_size;
  EXPECT_TRUE(Validate(config).ok());
}

TEST(SchedulerConfig, TooSmallAPoolNamesTheLongestLengthThatFits) {
  SchedulerConfig config = SmallConfig();
  config.num_blocks = 15;
  EXPECT_THAT(Refusal(config), HasSubstr("max_model_len is 64"));
  EXPECT_THAT(Refusal(config), HasSubstr("at most 60"));
}

TEST(SchedulerConfig, NamesFieldValueAndLimit) {
  SchedulerConfig config = SmallConfig();
  config.max_num_seqs = 0;
  EXPECT_EQ(Refusal(config), "max_num_seqs is 0; it must be at least 1");
  config = SmallConfig();
  config.max_num_batched_tokens = -3;
  EXPECT_THAT(Refusal(config), HasSubstr("max_num_batched_tokens is -3"));
  config = SmallConfig();
  config.block_size = 0;
  EXPECT_THAT(Refusal(config), HasSubstr("block_size is 0"));
  config = SmallConfig();
  config.num_blocks = int64_t{1} << 40;
  EXPECT_THAT(Refusal(config), HasSubstr("num_blocks is 1099511627776"));
}

TEST(SchedulerConfig, WatermarkIsAShare) {
  for (const double watermark : {-0.1, 1.0, std::numeric_limits<double>::quiet_NaN(),
                                 std::numeric_limits<double>::infinity()}) {
    SchedulerConfig config = SmallConfig();
    config.kv_watermark = watermark;
    EXPECT_THAT(Refusal(config), HasSubstr("kv_watermark"));
  }
}

TEST(SchedulerDeathTest, RefusesAnInvalidConfig) {
  EXPECT_DEATH(Scheduler{SchedulerConfig{}}, "num_blocks is 0");
}

}  // namespace
}  // namespace octavo
