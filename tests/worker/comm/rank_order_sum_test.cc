#include "worker/comm/rank_order_sum.h"

#include <vector>

#include "gtest/gtest.h"

namespace octavo {
namespace {

TEST(RankOrderSum, AddsFromTheLeftWhereverTheResultGoes) {
  // (1e8 + 1) - 1e8 is 0 in float, 1e8 - 1e8 + 1 is 1.
  for (const size_t count : {size_t{1}, size_t{7}, size_t{1024}, size_t{2500}}) {
    const std::vector<float> large(count, 1e8f), one(count, 1.0f), minus(count, -1e8f);
    for (int own = 0; own < 3; ++own) {
      std::vector<std::vector<float>> parts = {large, one, minus};
      const std::vector<const float*> pointers = {parts[0].data(), parts[1].data(),
                                                  parts[2].data()};
      SumInRankOrder(pointers, static_cast<int64_t>(count), parts[own].data());
      EXPECT_EQ(parts[own], std::vector<float>(count, 0.0f));
    }
    std::vector<std::vector<float>> parts = {large, minus, one};
    const std::vector<const float*> pointers = {parts[0].data(), parts[1].data(), parts[2].data()};
    std::vector<float> out(count);
    SumInRankOrder(pointers, static_cast<int64_t>(count), out.data());
    EXPECT_EQ(out, one);
  }
}

}  // namespace
}  // namespace octavo
