#include "tools/simulate/distribution.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "tools/simulate/random_stream.h"

namespace octavo::simulate {
namespace {

TEST(Distribution, IsZeroWithoutValues) {
  const Distribution empty;
  EXPECT_EQ(empty.Percentile(0.5), 0);
  EXPECT_EQ(empty.mean(), 0);
}

TEST(Distribution, OneValueIsEveryPercentile) {
  Distribution one;
  one.Add(0.125);
  EXPECT_EQ(one.Percentile(0), 0.125);
  EXPECT_EQ(one.Percentile(0.5), 0.125);
  EXPECT_EQ(one.Percentile(1), 0.125);
}

TEST(Distribution, PercentilesAreRightWithinAQuarterPercent) {
  Distribution distribution;
  std::vector<double> values;
  RandomStream random(5);
  double sum = 0;
  for (int i = 0; i < 10'001; ++i) {
    values.push_back(random.LogNormal(0.02, 2));
    distribution.Add(values.back());
    sum += values.back();
  }
  std::sort(values.begin(), values.end());
  for (const double share : {0.01, 0.5, 0.9, 0.99}) {
    const double exact = values[static_cast<size_t>(std::ceil(share * 10'001)) - 1];
    EXPECT_NEAR(distribution.Percentile(share), exact, 0.0026 * exact) << share;
  }
  EXPECT_EQ(distribution.least(), values.front());
  EXPECT_EQ(distribution.most(), values.back());
  EXPECT_NEAR(distribution.mean(), sum / 10'001, 1e-12);
}

TEST(Distribution, CountsZeros) {
  Distribution distribution;
  for (int i = 0; i < 9; ++i) distribution.Add(0);
  distribution.Add(2);
  EXPECT_EQ(distribution.Percentile(0.9), 0);
  EXPECT_NEAR(distribution.Percentile(0.91), 2, 0.005);
}

}  // namespace
}  // namespace octavo::simulate
