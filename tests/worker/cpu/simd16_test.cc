#include "worker/cpu/simd16.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace octavo {
namespace {

namespace simd = OCTAVO_SIMD;

float Exp2Lane(float x) {
  float lanes[simd::kLanes];
  simd::Store(lanes, simd::Exp2(simd::Set1(x)));
  for (const float lane : lanes) EXPECT_TRUE(lane == lanes[0] || std::isnan(x));
  return lanes[0];
}

TEST(Simd16, Exp2StaysWithinItsBound) {
  double worst = 0;
  for (double x = -125.9; x <= 0; x += 0.000731) {
    const float argument = static_cast<float>(x);
    const double exact = std::exp2(double{argument});
    worst = std::max(worst, std::abs(double{Exp2Lane(argument)} - exact) / exact);
  }
  EXPECT_LT(worst, 1.2e-7);
  EXPECT_EQ(Exp2Lane(0), 1.0f);
  EXPECT_EQ(Exp2Lane(-0.0f), 1.0f);
  EXPECT_EQ(Exp2Lane(-126), std::numeric_limits<float>::min());
  EXPECT_EQ(Exp2Lane(-std::numeric_limits<float>::infinity()), std::numeric_limits<float>::min());
  EXPECT_TRUE(std::isnan(Exp2Lane(NAN)));
}

TEST(Simd16, KeepLanesTakesAHalfOpenRange) {
  float values[simd::kLanes];
  for (int i = 0; i < simd::kLanes; ++i) values[i] = static_cast<float>(i);
  for (int begin = 0; begin <= simd::kLanes; ++begin)
    for (int end = begin; end <= simd::kLanes; ++end) {
      float kept[simd::kLanes];
      simd::Store(kept, simd::KeepLanes(simd::Load(values), begin, end, simd::Set1(-1)));
      for (int i = 0; i < simd::kLanes; ++i)
        EXPECT_EQ(kept[i], i >= begin && i < end ? values[i] : -1.0f);
    }
}

TEST(Simd16, ReducesInAFixedTree) {
  float values[simd::kLanes];
  for (int i = 0; i < simd::kLanes; ++i) values[i] = i == 3 ? 1e8f : static_cast<float>(i) * 0.37f;
  float tree[simd::kLanes];
  std::copy(values, values + simd::kLanes, tree);
  for (int step : {8, 4, 2, 1})
    for (int i = 0; i < step; ++i) tree[i] += tree[i + step];
  EXPECT_EQ(simd::ReduceAdd(simd::Load(values)), tree[0]);
  EXPECT_EQ(simd::ReduceMax(simd::Load(values)), 1e8f);
}

}  // namespace
}  // namespace octavo
