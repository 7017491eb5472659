#include "worker/cpu/logit_scan.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "worker/backend/sampling_math.h"
#include "worker/cpu/simd16.h"

namespace octavo {
namespace {

namespace simd = OCTAVO_SIMD;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The last, partial group is filled up with -infinity, which never wins and weighs nothing.
simd::Vec LoadGroup(std::span<const float> logits, size_t first) {
  if (first + simd::kLanes <= logits.size()) return simd::Load(logits.data() + first);
  alignas(64) float padded[simd::kLanes];
  std::fill_n(padded, simd::kLanes, -kInfinity);
  std::copy(logits.begin() + static_cast<std::ptrdiff_t>(first), logits.end(), padded);
  return simd::Load(padded);
}

__m256 IsNan(simd::Vec x) {
  return _mm256_or_ps(_mm256_cmp_ps(simd::Low(x), simd::Low(x), _CMP_UNORD_Q),
                      _mm256_cmp_ps(simd::High(x), simd::High(x), _CMP_UNORD_Q));
}

// Bit i: lane i is >= bound.
uint32_t AtLeast(simd::Vec x, __m256 bound) {
  const auto low =
      static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(x.lo, bound, _CMP_GE_OQ)));
  const auto high =
      static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(x.hi, bound, _CMP_GE_OQ)));
  return low | high << 8;
}

// To multiples of 2^-44: floats from 2^-21 on are that already. What is left of -infinity, 2^-126,
// becomes 0.
__m256 RoundSmall(__m256 weights) {
  const __m256 coarse = _mm256_set1_ps(0x1p-21f);
  const __m256 rounded = _mm256_sub_ps(_mm256_add_ps(weights, coarse), coarse);
  return _mm256_blendv_ps(rounded, weights, _mm256_cmp_ps(weights, coarse, _CMP_GE_OQ));
}

// SamplingWeight, lane by lane.
simd::Vec WeightsOf(simd::Vec logits, simd::Vec max, simd::Vec scale) {
  const simd::Vec weights = simd::Exp2(simd::Mul(simd::Sub(logits, max), scale));
  return {RoundSmall(weights.lo), RoundSmall(weights.hi)};
}

__m256d ToDouble(__m128 x) { return _mm256_cvtps_pd(x); }

}  // namespace

bool LogitMaxima::Scan(std::span<const float> logits) {
  group_max.resize((logits.size() + kGroup - 1) / kGroup);
  simd::Vec running = simd::Set1(-kInfinity);
  __m256 nan = _mm256_setzero_ps();
  for (size_t group = 0; group < group_max.size(); ++group) {
    const simd::Vec x = LoadGroup(logits, group * kGroup);
    nan = _mm256_or_ps(nan, IsNan(x));
    running = simd::Max(running, x);
    group_max[group] = simd::ReduceMax(x);
  }
  max = simd::ReduceMax(running);
  return _mm256_movemask_ps(nan) == 0 && max < kInfinity && max > -kInfinity;
}

TokenId LogitMaxima::ArgMax(std::span<const float> logits) const {
  const auto group =
      static_cast<size_t>(std::find(group_max.begin(), group_max.end(), max) - group_max.begin());
  size_t token = group * kGroup;
  while (logits[token] != max) ++token;
  return static_cast<TokenId>(token);
}

float LogitMaxima::LowerBoundOfLargest(int64_t count) {
  if (count > static_cast<int64_t>(group_max.size())) return -kInfinity;
  order = group_max;
  const auto nth = order.begin() + (count - 1);
  std::nth_element(order.begin(), nth, order.end(), std::greater<float>());
  return *nth;
}

LogitWeights::LogitWeights(float max_logit, float temperature)
    : max(max_logit), scale(WeightScale(temperature)) {}

uint64_t LogitWeights::Sum(std::span<const float> logits, std::vector<uint64_t>* block_sums) const {
  const simd::Vec max_lanes = simd::Set1(max), scale_lanes = simd::Set1(scale);
  if (block_sums != nullptr) block_sums->clear();
  uint64_t total = 0;
  for (size_t block = 0; block < logits.size(); block += kBlock) {
    const size_t end = std::min(logits.size(), block + kBlock);
    __m256d sum = _mm256_setzero_pd();
    for (size_t i = block; i < end; i += simd::kLanes) {
      const simd::Vec w = WeightsOf(LoadGroup(logits, i), max_lanes, scale_lanes);
      const __m256d low = _mm256_add_pd(ToDouble(_mm256_castps256_ps128(w.lo)),
                                        ToDouble(_mm256_extractf128_ps(w.lo, 1)));
      const __m256d high = _mm256_add_pd(ToDouble(_mm256_castps256_ps128(w.hi)),
                                         ToDouble(_mm256_extractf128_ps(w.hi, 1)));
      sum = _mm256_add_pd(sum, _mm256_add_pd(low, high));
    }
    alignas(32) double lanes[4];
    _mm256_store_pd(lanes, sum);
    // At most kBlock, with 44 bits of fraction: exact.
    const double sum_of_block = (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
    const auto block_sum = static_cast<uint64_t>(static_cast<int64_t>(sum_of_block * 0x1p44));
    if (block_sums != nullptr) block_sums->push_back(block_sum);
    total += block_sum;
  }
  return total;
}

void LogitWeights::Of(std::span<const float> logits, float* out) const {
  alignas(64) float lanes[simd::kLanes];
  for (size_t i = 0; i < logits.size(); i += simd::kLanes) {
    simd::Store(lanes, WeightsOf(LoadGroup(logits, i), simd::Set1(max), simd::Set1(scale)));
    std::copy_n(lanes, std::min<size_t>(simd::kLanes, logits.size() - i), out + i);
  }
}

void LogitWeights::Weigh(std::span<Candidate> candidates) const {
  alignas(64) float lanes[simd::kLanes];
  for (size_t i = 0; i < candidates.size(); i += simd::kLanes) {
    const size_t count = std::min<size_t>(simd::kLanes, candidates.size() - i);
    std::fill_n(lanes, simd::kLanes, -kInfinity);
    for (size_t lane = 0; lane < count; ++lane) lanes[lane] = candidates[i + lane].logit;
    simd::Store(lanes, WeightsOf(simd::Load(lanes), simd::Set1(max), simd::Set1(scale)));
    for (size_t lane = 0; lane < count; ++lane) candidates[i + lane].weight = lanes[lane];
  }
}

void CollectAtLeast(std::span<const float> logits, const LogitMaxima& maxima, float bound,
                    std::vector<Candidate>* candidates) {
  candidates->clear();
  bound = std::max(bound, std::numeric_limits<float>::lowest());
  const __m256 bound_lanes = _mm256_set1_ps(bound);
  for (size_t group = 0; group < maxima.group_max.size(); ++group) {
    if (maxima.group_max[group] < bound) continue;
    const size_t first = group * LogitMaxima::kGroup;
    for (uint32_t mask = AtLeast(LoadGroup(logits, first), bound_lanes); mask != 0;
         mask &= mask - 1) {
      const size_t token = first + static_cast<size_t>(std::countr_zero(mask));
      candidates->push_back({logits[token], 0, static_cast<TokenId>(token)});
    }
  }
}

}  // namespace octavo
