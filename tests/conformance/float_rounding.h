// Rounding to the cache's float types, written from the formats' definitions and slow on purpose.
#ifndef OCTAVO_TESTS_CONFORMANCE_FLOAT_ROUNDING_H_
#define OCTAVO_TESTS_CONFORMANCE_FLOAT_ROUNDING_H_

#include <cmath>

#include "common/dtype.h"

namespace octavo {

// The nearest number with `precision` significant bits and exponents from `min_exponent` on, ties
// to even. REQUIRES: finite, and not so large that it overflows the format.
inline double RoundToPrecision(double x, int precision, int min_exponent) {
  if (x == 0) return x;
  const int exponent = std::max(std::ilogb(x), min_exponent);
  const double unit = std::ldexp(1.0, exponent - precision + 1);
  return std::nearbyint(x / unit) * unit;  // the default mode is ties to even
}

inline float RoundTo(DType dtype, float x) {
  switch (dtype) {
    case DType::kBF16:
      return static_cast<float>(RoundToPrecision(double{x}, 8, -126));
    case DType::kF16:
      return static_cast<float>(RoundToPrecision(double{x}, 11, -14));
    default:
      return x;
  }
}

}  // namespace octavo

#endif  // OCTAVO_TESTS_CONFORMANCE_FLOAT_ROUNDING_H_
