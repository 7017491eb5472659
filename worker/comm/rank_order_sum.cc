#include "worker/comm/rank_order_sum.h"

#include <algorithm>

namespace octavo {
namespace {

constexpr int64_t kTile = 1024;  // floats that stay in the first-level cache

}  // namespace

void SumInRankOrder(std::span<const float* const> parts, int64_t count, float* out) {
  float sum[kTile];
  for (int64_t first = 0; first < count; first += kTile) {
    const int64_t size = std::min(kTile, count - first);
    std::copy_n(parts[0] + first, size, sum);
    for (const float* part : parts.subspan(1))
      for (int64_t i = 0; i < size; ++i) sum[i] += part[first + i];
    std::copy_n(sum, size, out + first);
  }
}

}  // namespace octavo
