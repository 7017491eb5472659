// Rounding to the cache's float types, written from the formats' definitions and slow on purpose.
#ifndef OCTAVO_TESTS_CONFORMANCE_FLOAT_ROUNDING_H_
#define OCTAVO_TESTS_CONFORMANCE_FLOAT_ROUNDING_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

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

// What a code of an 8-bit float stands for, from its definition: sign, exponent, mantissa.
inline double Float8Value(DType dtype, uint8_t code) {
  const bool e4m3 = dtype == DType::kF8E4M3;
  const int mantissa_bits = e4m3 ? 3 : 2;
  const int bias = e4m3 ? 7 : 15;
  const int exponent = (code & 0x7f) >> mantissa_bits;
  const int mantissa = code & ((1 << mantissa_bits) - 1);
  const double sign = code & 0x80 ? -1 : 1;
  if (e4m3 ? (code & 0x7f) == 0x7f : exponent == 31 && mantissa != 0) return NAN;
  if (!e4m3 && exponent == 31) return sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits);
}

// Of float types. The 8-bit ones saturate.
inline float RoundTo(DType dtype, float x) {
  switch (dtype) {
    case DType::kBF16:
      return static_cast<float>(RoundToPrecision(double{x}, 8, -126));
    case DType::kF16:
      return static_cast<float>(RoundToPrecision(double{x}, 11, -14));
    case DType::kF8E4M3:
      return static_cast<float>(std::clamp(RoundToPrecision(double{x}, 4, -6), -448.0, 448.0));
    case DType::kF8E5M2:
      return static_cast<float>(std::clamp(RoundToPrecision(double{x}, 3, -14), -57344.0, 57344.0));
    default:
      return x;
  }
}

// A head's K or V of one token as the cache holds it: of int8, codes times the row's scale.
inline std::vector<float> RoundRow(DType dtype, const float* x, int32_t count) {
  std::vector<float> row(x, x + count);
  if (dtype != DType::kI8) {
    for (float& value : row) value = RoundTo(dtype, value);
    return row;
  }
  float largest = 0;
  for (const float value : row) largest = std::max(largest, std::abs(value));
  const float scale = std::min(RoundTo(DType::kF16, largest / 127.0f), 65504.0f);
  for (float& value : row)
    value = scale == 0 ? 0 : std::clamp(std::nearbyint(value / scale), -127.0f, 127.0f) * scale;
  return row;
}

}  // namespace octavo

#endif  // OCTAVO_TESTS_CONFORMANCE_FLOAT_ROUNDING_H_
