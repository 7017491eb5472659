// The arithmetic of sampling, the same bits on every backend: one exponential, and weights that are
// whole multiples of 2^-44, whose sums are therefore exact in any order. So a filter's cut and a
// draw depend on the logits and the row's parameters only, however a backend divides the work.
// docs/sampling.md has the formulas.
#ifndef OCTAVO_WORKER_BACKEND_SAMPLING_MATH_H_
#define OCTAVO_WORKER_BACKEND_SAMPLING_MATH_H_

#include <cmath>
#include <cstdint>

#include "common/host_device.h"
#include "common/philox.h"

namespace octavo {

// A weight is at most 1, so the sum of a whole row stays below 2^63.
inline constexpr int kWeightFractionBits = 44;
inline constexpr int64_t kMaxSampledVocabulary = int64_t{1} << 19;

// log2(e) / temperature: weights are exp2((logit - max) * scale).
inline float WeightScale(float temperature) {
  const double scale = 1.4426950408889634 / double{temperature};
  return scale < 3.4028234663852886e38 ? static_cast<float>(scale) : 3.4028234663852886e38f;
}

// WeightScale(1), of log-probabilities.
inline constexpr float kUnitWeightScale = 1.44269504f;

// exp2((logit - max) * scale), rounded to a multiple of 2^-44; 0 for -infinity. The polynomial and
// its roundings are those of simd16.h's Exp2, one lane of it; nothing here is a product plus a sum
// that a compiler could fuse. REQUIRES: logit <= max, max finite, scale > 0.
OCTAVO_HOST_DEVICE inline float SamplingWeight(float logit, float max, float scale) {
  constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  float x = (logit - max) * scale;
  x = -126.0f > x ? -126.0f : x;
  const float rounded = x + kMagic;
  const float fraction = x - (rounded - kMagic);
  float p = 1.535336188319500e-4f;
  p = fmaf(p, fraction, 1.339887440266574e-3f);
  p = fmaf(p, fraction, 9.618437357674640e-3f);
  p = fmaf(p, fraction, 5.550332471162809e-2f);
  p = fmaf(p, fraction, 2.402264791363012e-1f);
  p = fmaf(p, fraction, 6.931472028550421e-1f);
  p = fmaf(p, fraction, 1.0f);
  const uint32_t exponent = __builtin_bit_cast(uint32_t, rounded) << 23;
  const float weight = __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, p) + exponent);
  // From 2^-21 on floats are multiples of 2^-44 as they are.
  constexpr float kCoarse = 0x1p-21f;
  return weight >= kCoarse ? weight : (weight + kCoarse) - kCoarse;
}

// In units of 2^-44; exact.
OCTAVO_HOST_DEVICE inline uint64_t FixedWeight(float weight) {
  return static_cast<uint64_t>(static_cast<int64_t>(weight * 0x1p44f));
}

// The random number of one sampled token (det.2); its top 53 bits are used.
inline uint64_t SamplingRandom(uint64_t seed, uint32_t choice_index, int64_t position) {
  const auto bits = SamplingBits(seed, choice_index, static_cast<uint64_t>(position));
  return uint64_t{bits[0]} << 32 | bits[1];
}

// floor(u * total), u being the top 53 bits of `random` as a fraction: less than total, so that a
// running sum of the weights exceeds it somewhere. REQUIRES: total > 0.
OCTAVO_HOST_DEVICE inline uint64_t DrawTarget(uint64_t random, uint64_t total) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>((static_cast<Wide>(random >> 11) * total) >> 53);
}

// What tokens before another weigh at least when top_p drops it; in [1, total].
OCTAVO_HOST_DEVICE inline uint64_t MassToKeep(float top_p, uint64_t total) {
  return static_cast<uint64_t>(ceil(static_cast<double>(top_p) * static_cast<double>(total)));
}

// T ln(min_p), by which a logit may lie below the largest; -infinity when min_p is off.
inline double MinPReach(float temperature, float min_p) {
  return min_p > 0 ? double{temperature} * std::log(double{min_p}) : -HUGE_VAL;
}

// The least logit that min_p leaves: the smallest float that is not below max + reach.
OCTAVO_HOST_DEVICE inline float MinPBound(float max, double reach) {
  const double bound = static_cast<double>(max) + reach;
  const float nearest = static_cast<float>(bound);
  return static_cast<double>(nearest) >= bound ? nearest : nextafterf(nearest, HUGE_VALF);
}

// ln of a sum of weights.
inline double LogOfTotal(uint64_t total) { return std::log(static_cast<double>(total) * 0x1p-44); }

// Of the raw distribution; log_total is that of the weights at scale WeightScale(1).
inline float LogProbability(float logit, float max, double log_total) {
  return static_cast<float>(double{logit} - double{max} - log_total);
}

// Bits that order as the floats do, for radix selection; zeros are equal. NaN has no place.
OCTAVO_HOST_DEVICE inline uint32_t OrderedBits(float x) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, x + 0.0f);  // -0 + 0 is 0
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
}

}  // namespace octavo

#endif  // OCTAVO_WORKER_BACKEND_SAMPLING_MATH_H_
