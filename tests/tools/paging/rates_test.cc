#include "tools/paging/rates.h"

#include "gtest/gtest.h"

namespace octavo::paging {
namespace {

Request OfLength(int32_t prompt_tokens, int32_t max_tokens) {
  Request request;
  request.prompt.assign(static_cast<size_t>(prompt_tokens), 1);
  request.max_tokens = max_tokens;
  return request;
}

TEST(Rates, DecodeRateLiesBetweenTheMeasuredOnes) {
  Rates rates;
  rates.decode_tokens_per_s = {{1, 100}, {2, 180}, {3, 240}};
  EXPECT_DOUBLE_EQ(rates.DecodeAt(2), 180);
  EXPECT_DOUBLE_EQ(rates.DecodeAt(2.25), 195);
  EXPECT_DOUBLE_EQ(rates.DecodeAt(0.4), 100);
}

TEST(WorkloadShape, TheMeanContextCountsEveryOutputToken) {
  // Contexts 10 and 11; then 4.
  const WorkloadShape shape = ShapeOf({OfLength(10, 2), OfLength(4, 1)});
  EXPECT_EQ(shape.requests, 2);
  EXPECT_EQ(shape.prompt_tokens, 14);
  EXPECT_EQ(shape.output_tokens, 3);
  EXPECT_DOUBLE_EQ(shape.mean_context, 25.0 / 3);
}

TEST(PredictedSeconds, PrefillsThenDecodesAtTheMeanConcurrency) {
  Rates rates;
  rates.prefill_tokens_per_s = 1000;
  rates.decode_tokens_per_s = {{4, 400}};
  const WorkloadShape shape{.requests = 10, .prompt_tokens = 2000, .output_tokens = 810};
  // 2 s of prefill; 800 tokens after the first ones.
  EXPECT_DOUBLE_EQ(PredictedSeconds(rates, shape, 4), 2 + 2);
}

}  // namespace
}  // namespace octavo::paging
