#include "scheduler/engine/capacity.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace octavo {
namespace {

using ::testing::ElementsAre;

TEST(CapacityReport, SaysTheNumbersOfSmolLM2) {
  CapacityReport report;
  report.geometry = *CacheGeometry::Create({30, 3, 64}, DType::kBF16, 16);
  report.num_blocks = 11000;
  report.max_model_len = 8192;
  report.mean_tokens = 512;
  EXPECT_EQ(report.total_tokens(), 176000);
  EXPECT_DOUBLE_EQ(report.max_concurrency(), 11000.0 / 512);
  EXPECT_DOUBLE_EQ(report.mean_concurrency(), 11000.0 / 32);
  EXPECT_THAT(Lines(report),
              ElementsAre("KV cache per token: 2 x 30 layers x 3 kv_heads x 64 head_dim x 2 bytes "
                          "= 23,040 bytes (bf16)",
                          "KV cache blocks: 11,000 of 16 tokens = 176,000 tokens, 3.8 GiB",
                          "requests at once: 21.5 of 8,192 tokens (max-model-len)",
                          "requests at once: 343.8 of 512 tokens (expected-mean-tokens)"));
  report.mean_is_measured = true;
  EXPECT_EQ(Lines(report)[3], "requests at once: 343.8 of 512 tokens (mean length measured)");
}

TEST(CapacityReport, CountsWhatWindowsKeep) {
  CapacityReport report;
  std::vector<int32_t> windows(18, 512);
  windows[5] = windows[11] = windows[17] = 0;
  report.geometry = *CacheGeometry::Create({18, 1, 256, windows}, DType::kBF16, 16);
  report.num_blocks = 22130;
  report.max_model_len = 32768;
  report.mean_tokens = 160;
  EXPECT_EQ(report.total_tokens(), 22130 * 16 / 6);
  EXPECT_DOUBLE_EQ(report.max_concurrency(), 10);  // 2,048 blocks and 5 x 33
  EXPECT_EQ(Lines(report)[1],
            "KV cache blocks: 22,130 of 16 tokens and 3 layers, 6 for a place in all = 59,013 "
            "tokens, 1.0 GiB");
}

}  // namespace
}  // namespace octavo
