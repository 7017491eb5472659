#include "tests/conformance/attention_reference.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>

#include "tests/conformance/float_rounding.h"

namespace octavo {
namespace {

size_t Index(int32_t at) { return static_cast<size_t>(at); }

}  // namespace

TokenRows RandomTokens(const PagedShape& shape, int32_t length, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0.0f, 1.4f);
  TokenRows rows;
  rows.length = length;
  const auto fill = [&](std::vector<float>& values, int32_t heads) {
    values.resize(static_cast<size_t>(length) * static_cast<size_t>(heads * shape.head_dim));
    for (float& value : values) value = normal(random);
  };
  fill(rows.q, shape.num_heads);
  fill(rows.k, shape.num_kv_heads);
  fill(rows.v, shape.num_kv_heads);
  return rows;
}

double ScaleOf(const PagedShape& shape) { return 1.0 / std::sqrt(shape.head_dim); }

std::vector<double> AttentionReference(const PagedShape& shape, const TokenRows& tokens,
                                       int32_t position) {
  const int32_t dim = shape.head_dim;
  const int32_t group = shape.num_heads / shape.num_kv_heads;
  const int32_t first =
      shape.sliding_window > 0 ? std::max(0, position - shape.sliding_window + 1) : 0;
  const auto row = [&](const std::vector<float>& values, int32_t heads, int32_t at, int32_t head) {
    return values.data() + (static_cast<size_t>(at) * Index(heads) + Index(head)) * Index(dim);
  };
  std::vector<double> out;
  for (int32_t head = 0; head < shape.num_heads; ++head) {
    const float* q = row(tokens.q, shape.num_heads, position, head);
    std::vector<double> weights;
    for (int32_t p = first; p <= position; ++p) {
      const std::vector<float> k =
          RoundRow(shape.dtype, row(tokens.k, shape.num_kv_heads, p, head / group), dim);
      double score = 0;
      for (int32_t d = 0; d < dim; ++d) score += double{q[d]} * double{k[Index(d)]};
      score *= ScaleOf(shape);
      if (shape.softcap > 0) score = shape.softcap * std::tanh(score / shape.softcap);
      weights.push_back(score);
    }
    const double max = *std::max_element(weights.begin(), weights.end());
    double total = 0;
    for (double& weight : weights) total += weight = std::exp(weight - max);
    std::vector<double> sums(Index(dim));
    for (int32_t p = first; p <= position; ++p) {
      const std::vector<float> v =
          RoundRow(shape.dtype, row(tokens.v, shape.num_kv_heads, p, head / group), dim);
      for (int32_t d = 0; d < dim; ++d)
        sums[Index(d)] += weights[Index(p - first)] * double{v[Index(d)]};
    }
    for (const double sum : sums) out.push_back(sum / total);
  }
  return out;
}

}  // namespace octavo
