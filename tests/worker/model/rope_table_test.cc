#include "worker/model/rope_table.h"

#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace octavo {
namespace {

using ::testing::HasSubstr;

// `expected` is what transformers 5.24 computes in float32 (ROPE_INIT_FUNCTIONS).
void ExpectFrequencies(const RopeConfig& rope, const std::vector<double>& expected) {
  const absl::StatusOr<std::vector<double>> got = InverseFrequencies(rope);
  ASSERT_TRUE(got.ok()) << got.status();
  ASSERT_EQ(got->size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR((*got)[i], expected[i], 1e-6 * expected[i]) << "pair " << i;
}

TEST(RopeTable, LinearScalingDividesAllFrequencies) {
  ExpectFrequencies(
      {.theta = 10000, .rotary_dim = 16, .scaling = RopeScaling::kLinear, .factor = 4},
      {0.25, 0.079056941, 0.0250000004, 0.00790569466, 0.00249999994, 0.000790569466,
       0.000250000012, 7.90569466e-05});
}

TEST(RopeTable, Llama3ScalingEqualsTransformers) {
  ExpectFrequencies(
      {.theta = 500000,
       .rotary_dim = 32,
       .scaling = RopeScaling::kLlama3,
       .factor = 8,
       .low_freq_factor = 1,
       .high_freq_factor = 4,
       .original_max_positions = 8192},
      {1.0, 0.440366626, 0.193922758, 0.0853971019, 0.0376060307, 0.0165604409, 0.00729266508,
       0.00321144611, 0.000524846022, 7.78465546e-05, 3.42810235e-05, 1.50962178e-05,
       6.64786967e-06, 2.92749974e-06, 1.28917316e-06, 5.6770881e-07});
}

TEST(RopeTable, YarnScalingEqualsTransformers) {
  ExpectFrequencies(
      {.theta = 10000,
       .rotary_dim = 32,
       .scaling = RopeScaling::kYarn,
       .factor = 4,
       .original_max_positions = 2048},
      {1.0, 0.562341332, 0.316227764, 0.177827939, 0.100000001, 0.0502090417, 0.02484647,
       0.0120668961, 0.00571428565, 0.0026108704, 0.00112938497, 0.000444569858, 0.000250000012,
       0.000140585325, 7.90569466e-05, 4.44569851e-05});
}

TEST(RopeTable, YarnScalesCosAndSinByTheAttentionFactor) {
  RopeConfig rope = {.rotary_dim = 16,
                     .scaling = RopeScaling::kYarn,
                     .factor = 4,
                     .original_max_positions = 64,
                     .attention_factor = 1.25f};
  const absl::StatusOr<std::vector<float>> table = CosSinTable(rope, 2);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ((*table)[0], 1.25f);  // cos 0
  EXPECT_EQ((*table)[1], 0.0f);   // sin 0
}

TEST(RopeTable, FrequencyFactorsDivide) {
  const RopeConfig rope = {.rotary_dim = 4, .frequency_factors = {2.0f, 0.5f}};
  ExpectFrequencies(rope, {0.5, 0.02});
}

TEST(RopeTable, HoldsCosAndSinOfPositionTimesFrequency) {
  const RopeConfig rope = {.theta = 10000, .rotary_dim = 64};
  const absl::StatusOr<std::vector<float>> table = CosSinTable(rope, 9000);
  ASSERT_TRUE(table.ok()) << table.status();
  ASSERT_EQ(table->size(), 9000u * 64);
  const double angle = 8191 * std::pow(10000.0, -2.0 * 5 / 64);
  EXPECT_EQ((*table)[8191 * 64 + 10], static_cast<float>(std::cos(angle)));
  EXPECT_EQ((*table)[8191 * 64 + 11], static_cast<float>(std::sin(angle)));
}

TEST(RopeTable, RefusesParametersThatMakeNoSenseByName) {
  const auto error = [](const RopeConfig& rope) {
    return std::string(InverseFrequencies(rope).status().message());
  };
  EXPECT_THAT(error({.rotary_dim = 3}), HasSubstr("rotary_dim is 3"));
  EXPECT_THAT(error({.theta = -1, .rotary_dim = 4}), HasSubstr("theta is -1"));
  EXPECT_THAT(error({.rotary_dim = 4, .scaling = RopeScaling::kLinear, .factor = 0}),
              HasSubstr("factor is 0"));
  EXPECT_THAT(error({.rotary_dim = 4, .scaling = RopeScaling::kYarn, .factor = 2}),
              HasSubstr("original_max_positions is 0"));
  EXPECT_THAT(error({.rotary_dim = 4,
                     .scaling = RopeScaling::kLlama3,
                     .factor = 2,
                     .low_freq_factor = 4,
                     .high_freq_factor = 4,
                     .original_max_positions = 64}),
              HasSubstr("high_freq_factor 4"));
  EXPECT_THAT(error({.rotary_dim = 8, .frequency_factors = {1.0f}}),
              HasSubstr("1 frequency factors for 4 pairs"));
}

}  // namespace
}  // namespace octavo
