#include "worker/cpu/simd16.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace octavo {
namespace {

using namespace OCTAVO_SIMD;  // NOLINT: the vector vocabulary

float Exp2Lane(float x) {
  float lanes[kLanes];
  Store(lanes, Exp2(Set1(x)));
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
  float values[kLanes];
  for (int i = 0; i < kLanes; ++i) values[i] = static_cast<float>(i);
  for (int begin = 0; begin <= kLanes; ++begin)
    for (int end = begin; end <= kLanes; ++end) {
      float kept[kLanes];
      Store(kept, KeepLanes(Load(values), begin, end, Set1(-1)));
      for (int i = 0; i < kLanes; ++i)
        EXPECT_EQ(kept[i], i >= begin && i < end ? values[i] : -1.0f);
    }
}

TEST(Simd16, ReducesInAFixedTree) {
  float values[kLanes];
  for (int i = 0; i < kLanes; ++i) values[i] = i == 3 ? 1e8f : static_cast<float>(i) * 0.37f;
  float tree[kLanes];
  std::copy(values, values + kLanes, tree);
  for (int step : {8, 4, 2, 1})
    for (int i = 0; i < step; ++i) tree[i] += tree[i + step];
  EXPECT_EQ(ReduceAdd(Load(values)), tree[0]);
  EXPECT_EQ(ReduceMax(Load(values)), 1e8f);
}

}  // namespace
}  // namespace octavo
