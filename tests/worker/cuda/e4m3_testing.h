// e4m3 codes, fp16 values and where they err, for tests: from the format's definition (OCP 8-bit
// Floating Point Specification, revision 1.0, section 5; IEEE 754 binary16).
#ifndef OCTAVO_TESTS_WORKER_CUDA_E4M3_TESTING_H_
#define OCTAVO_TESTS_WORKER_CUDA_E4M3_TESTING_H_

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace octavo::cuda {

inline constexpr double kLargestE4m3Number = 448;
inline constexpr double kSmallestNormalE4m3 = 0x1p-6;

inline double FromE4m3(uint8_t code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  if (exponent == 15 && mantissa == 7) return std::numeric_limits<double>::quiet_NaN();
  const double magnitude =
      exponent == 0 ? mantissa * 0x1p-9 : std::ldexp(8 + mantissa, exponent - 10);
  return code & 0x80 ? -magnitude : magnitude;
}

// Half a unit in the last of 4 bits, or half the smallest number.
inline double E4m3Error(double value) { return std::fmax(std::abs(value) * 0x1p-4, 0x1p-10); }

inline double FromFp16(uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  double magnitude =
      exponent == 0 ? mantissa * 0x1p-24 : std::ldexp(1024 + mantissa, exponent - 25);
  if (exponent == 31)
    magnitude = mantissa == 0 ? std::numeric_limits<double>::infinity()
                              : std::numeric_limits<double>::quiet_NaN();
  return bits & 0x8000 ? -magnitude : magnitude;
}

// Numbers, none of them NaN.
inline std::vector<uint8_t> RandomE4m3(size_t count, std::mt19937& random) {
  std::vector<uint8_t> codes(count);
  for (uint8_t& code : codes) {
    code = static_cast<uint8_t>(random());
    if ((code & 0x7f) == 0x7f) code ^= 1;
  }
  return codes;
}

// Numbers of magnitudes between 2^-7 and 4.
inline std::vector<uint16_t> RandomFp16(size_t count, std::mt19937& random) {
  std::vector<uint16_t> values(count);
  for (uint16_t& value : values)
    value = static_cast<uint16_t>((random() & 0x83ffu) | (8 + random() % 9) << 10);
  return values;
}

}  // namespace octavo::cuda

#endif  // OCTAVO_TESTS_WORKER_CUDA_E4M3_TESTING_H_
