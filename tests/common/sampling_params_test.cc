#include "common/sampling_params.h"

#include <cmath>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace octavo {
namespace {

using ::testing::HasSubstr;

TEST(SamplingParams, DefaultsAndEdgesAreValid) {
  EXPECT_TRUE(Validate({}).ok());
  EXPECT_TRUE(Validate({.temperature = 0, .top_k = 1, .top_p = 1, .min_p = 1}).ok());
  EXPECT_TRUE(Validate({.temperature = 100, .top_p = 1e-6f, .num_logprobs = 20}).ok());
}

TEST(SamplingParams, NamesFieldValueAndLimit) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(Validate({.temperature = -1}).message(),
            "temperature is -1; it must be a finite number >= 0");
  EXPECT_THAT(Validate({.temperature = nan}).message(), HasSubstr("temperature is nan"));
  EXPECT_THAT(Validate({.temperature = infinity}).message(), HasSubstr("temperature is inf"));
  EXPECT_THAT(Validate({.top_k = -1}).message(), HasSubstr("top_k is -1"));
  EXPECT_THAT(Validate({.top_p = 0}).message(), HasSubstr("top_p is 0; it must be in (0, 1]"));
  EXPECT_THAT(Validate({.top_p = nan}).message(), HasSubstr("top_p is nan"));
  EXPECT_THAT(Validate({.top_p = 1.1f}).message(), HasSubstr("top_p is 1.1"));
  EXPECT_THAT(Validate({.min_p = -0.1f}).message(), HasSubstr("min_p is -0.1"));
  EXPECT_THAT(Validate({.min_p = nan}).message(), HasSubstr("min_p is nan"));
  EXPECT_THAT(Validate({.num_logprobs = 21}).message(), HasSubstr("logprobs is 21"));
  EXPECT_TRUE(Validate({.num_logprobs = 64}, kMaxStepLogprobs).ok());
  EXPECT_THAT(Validate({.num_logprobs = 65}, kMaxStepLogprobs).message(),
              HasSubstr("logprobs is 65; it must be in [0, 64]"));
  EXPECT_THAT(Validate({.num_logprobs = -2}).message(), HasSubstr("logprobs is -2"));
}

}  // namespace
}  // namespace octavo
