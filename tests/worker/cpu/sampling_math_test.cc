// The arithmetic that backends share, and that the CPU backend's vectors have the same bits.
#include "worker/backend/sampling_math.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "worker/cpu/logit_scan.h"

namespace octavo {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr uint64_t kOne = uint64_t{1} << kWeightFractionBits;

std::vector<float> RandomLogits(size_t count, float spread) {
  std::mt19937_64 random(33);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> logits(count);
  for (float& logit : logits) logit = normal(random);
  return logits;
}

TEST(SamplingMath, WeighsAsTheCpusVectorsDo) {
  const std::vector<float> logits = RandomLogits(4096, 12);
  const float max = *std::max_element(logits.begin(), logits.end());
  EXPECT_EQ(WeightScale(1), kUnitWeightScale);
  for (const float temperature : {0.05f, 0.7f, 1.0f, 3.0f, 1e30f, 1e-30f}) {
    const LogitWeights weights(max, temperature);
    std::vector<float> vectors(logits.size());
    weights.Of(logits, vectors.data());
    uint64_t total = 0;
    for (size_t i = 0; i < logits.size(); ++i) {
      const float weight = SamplingWeight(logits[i], max, WeightScale(temperature));
      ASSERT_EQ(weight, vectors[i]) << logits[i] << " at " << temperature;
      const double exact = std::exp((double{logits[i]} - double{max}) / double{temperature});
      ASSERT_NEAR(weight, exact, exact * 4e-6 + 0x1p-44);
      total += FixedWeight(weight);
    }
    EXPECT_EQ(weights.Sum(logits), total);
  }
  EXPECT_EQ(SamplingWeight(-kInfinity, 3.0f, kUnitWeightScale), 0.0f);
  EXPECT_EQ(SamplingWeight(3.0f, 3.0f, kUnitWeightScale), 1.0f);
}

TEST(SamplingMath, DrawsBelowTheTotal) {
  for (const uint64_t total : {uint64_t{1}, kOne, kOne * 524288}) {
    EXPECT_EQ(DrawTarget(0, total), 0u);
    EXPECT_LT(DrawTarget(~uint64_t{0}, total), total);
  }
  EXPECT_EQ(DrawTarget(uint64_t{1} << 63, kOne), kOne / 2);
  EXPECT_EQ(DrawTarget(2047, kOne * 524288), 0u);  // the lowest 11 bits are not used
}

TEST(SamplingMath, KeepsMassBetweenOneUnitAndAll) {
  EXPECT_EQ(MassToKeep(0.5f, kOne), kOne / 2);
  EXPECT_EQ(MassToKeep(0.5f, kOne + 1), kOne / 2 + 1);
  EXPECT_EQ(MassToKeep(1e-30f, kOne), 1u);
  for (const uint64_t total : {kOne, 3 * kOne + 1, 524288 * kOne})
    EXPECT_LE(MassToKeep(std::nextafter(1.0f, 0.0f), total), total);
}

TEST(SamplingMath, BoundsMinPFromAbove) {
  EXPECT_EQ(MinPBound(2.5f, MinPReach(0.7f, 0)), -kInfinity);
  EXPECT_EQ(MinPBound(2.5f, MinPReach(0.7f, 1)), 2.5f);
  for (const float min_p : {0.05f, 0.3f, 0.9f}) {
    const double exact = 2.5 + double{0.7f} * std::log(double{min_p});
    const float bound = MinPBound(2.5f, MinPReach(0.7f, min_p));
    EXPECT_GE(double{bound}, exact);
    EXPECT_LT(double{std::nextafter(bound, -kInfinity)}, exact);
  }
}

TEST(SamplingMath, OrdersBitsAsFloats) {
  const std::vector<float> ascending = {-kInfinity, -3.0f, -1e-45f, 0.0f, 1e-45f, 0.5f, kInfinity};
  for (size_t i = 1; i < ascending.size(); ++i)
    EXPECT_LT(OrderedBits(ascending[i - 1]), OrderedBits(ascending[i])) << ascending[i];
  EXPECT_EQ(OrderedBits(-0.0f), OrderedBits(0.0f));
}

}  // namespace
}  // namespace octavo
