#include "worker/cpu/kv_rounding.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/conformance/float_rounding.h"
#include "worker/cpu/simd_bytes.h"

namespace octavo {
namespace {

namespace simd = OCTAVO_SIMD;

constexpr DType kFloat8[] = {DType::kF8E4M3, DType::kF8E5M2};

uint8_t CodeOf(DType dtype, float x) {
  const std::vector<float> row(8, x);
  uint8_t codes[8];
  RoundToFloat8(dtype, row.data(), 8, codes);
  for (const uint8_t code : codes) EXPECT_EQ(code, codes[0]) << x;
  return codes[0];
}

uint8_t LargestCode(DType dtype) { return dtype == DType::kF8E4M3 ? 0x7e : 0x7b; }

// The code of the nearest value, by looking at all of them; the even one of two.
uint8_t NearestCode(DType dtype, double x) {
  int best = 0;
  for (int code = 1; code <= LargestCode(dtype); ++code) {
    const double near = std::abs(Float8Value(dtype, static_cast<uint8_t>(best)) - std::abs(x));
    const double here = std::abs(Float8Value(dtype, static_cast<uint8_t>(code)) - std::abs(x));
    if (here < near || (here == near && code % 2 == 0)) best = code;
  }
  return static_cast<uint8_t>(best | (std::signbit(x) ? 0x80 : 0));
}

TEST(RoundToFloat8, GivesEveryNumberItsCodeBack) {
  for (const DType dtype : kFloat8)
    for (int code = 0; code < 256; ++code) {
      const double value = Float8Value(dtype, static_cast<uint8_t>(code));
      if (!std::isfinite(value)) continue;
      EXPECT_EQ(CodeOf(dtype, static_cast<float>(value)), code) << Info(dtype).name;
    }
}

TEST(RoundToFloat8, RoundsHalfwayCasesToEvenAndTheirNeighboursToTheNearest) {
  for (const DType dtype : kFloat8)
    for (int code = 0; code < LargestCode(dtype); ++code) {
      const float middle = static_cast<float>((Float8Value(dtype, static_cast<uint8_t>(code)) +
                                               Float8Value(dtype, static_cast<uint8_t>(code + 1))) /
                                              2);
      for (const float sign : {1.0f, -1.0f}) {
        const int bit = sign < 0 ? 0x80 : 0;
        EXPECT_EQ(CodeOf(dtype, sign * middle), (code + code % 2) | bit) << middle;
        EXPECT_EQ(CodeOf(dtype, sign * std::nextafter(middle, 0.0f)), code | bit) << middle;
        EXPECT_EQ(CodeOf(dtype, sign * std::nextafter(middle, 1e6f)), (code + 1) | bit) << middle;
      }
    }
}

TEST(RoundToFloat8, AgreesWithASearchOverAllCodes) {
  std::mt19937_64 random(4);
  for (const DType dtype : kFloat8)
    for (int i = 0; i < 20'000; ++i) {
      const float magnitude = std::exp2(std::uniform_real_distribution<float>(-20, 17)(random));
      const float x = random() % 2 == 0 ? magnitude : -magnitude;
      EXPECT_EQ(CodeOf(dtype, x), NearestCode(dtype, double{x})) << x << Info(dtype).name;
    }
}

TEST(RoundToFloat8, SaturatesAndKeepsNan) {
  for (const DType dtype : kFloat8)
    for (const float x : {1e5f, 3e38f, std::numeric_limits<float>::infinity()}) {
      EXPECT_EQ(CodeOf(dtype, x), LargestCode(dtype));
      EXPECT_EQ(CodeOf(dtype, -x), LargestCode(dtype) | 0x80);
    }
  for (const DType dtype : kFloat8) {
    EXPECT_EQ(CodeOf(dtype, std::numeric_limits<float>::quiet_NaN()), 0x7f);
    EXPECT_EQ(CodeOf(dtype, 0.0f), 0);
    EXPECT_EQ(CodeOf(dtype, -0.0f), 0x80);
    EXPECT_EQ(CodeOf(dtype, std::numeric_limits<float>::denorm_min()), 0);
  }
}

template <typename Format>
std::vector<float> LoadAll(float factor) {
  std::vector<float> values;
  for (int first = 0; first < 256; first += 16) {
    uint8_t plain[16], pairs[32];
    for (int i = 0; i < 16; ++i) {
      plain[i] = static_cast<uint8_t>(first + i);
      pairs[2 * i] = static_cast<uint8_t>(first + i);
      pairs[2 * i + 1] = static_cast<uint8_t>(255 - first - i);
    }
    float lanes[16], of_pairs[16], mirrored[16];
    simd::Store(lanes, simd::Float8ToFloat<Format>(simd::LoadBytes16(plain)));
    simd::Store(of_pairs, (simd::LoadFloat8OfPairs<Format, false>(pairs)));
    simd::Store(mirrored, (simd::LoadFloat8OfPairs<Format, true>(pairs)));
    EXPECT_EQ(std::memcmp(lanes, of_pairs, sizeof(lanes)), 0) << first;
    for (int i = 0; i < 16; ++i) {
      values.push_back(lanes[i] * factor);
      // -x is the code with the other sign: 255 - code is -(127 - code).
      pairs[2 * i] = static_cast<uint8_t>(255 - first - i);
    }
    float again[16];
    simd::Store(again, (simd::LoadFloat8OfPairs<Format, false>(pairs)));
    EXPECT_EQ(std::memcmp(mirrored, again, sizeof(again)), 0) << first;
  }
  return values;
}

TEST(SimdBytes, ReadsAllCodesOfBothFormats) {
  const std::vector<float> e4m3 = LoadAll<simd::E4m3>(simd::kE4m3Factor);
  const std::vector<float> e5m2 = LoadAll<simd::E5m2>(1);
  for (int code = 0; code < 256; ++code) {
    const auto byte = static_cast<uint8_t>(code);
    const size_t at = static_cast<size_t>(code);
    const double four = Float8Value(DType::kF8E4M3, byte);
    // The one code that is no number reads as the next power's 480 (simd_bytes.h).
    EXPECT_EQ(e4m3[at], std::isnan(four) ? (code < 128 ? 480.0 : -480.0) : four) << code;
    const double five = Float8Value(DType::kF8E5M2, byte);
    if (std::isnan(five)) {
      EXPECT_TRUE(std::isnan(e5m2[at])) << code;
    } else {
      EXPECT_EQ(e5m2[at], five) << code;
    }
  }
}

TEST(SimdBytes, ReadsAllInt8AndHalvesOfTwoRuns) {
  for (int first = -128; first < 128; first += 16) {
    int8_t bytes[16];
    for (int i = 0; i < 16; ++i) bytes[i] = static_cast<int8_t>(first + i);
    float lanes[16];
    simd::Store(lanes, simd::Int8ToFloat(simd::LoadBytes16(bytes)));
    for (int i = 0; i < 16; ++i) EXPECT_EQ(lanes[i], static_cast<float>(first + i));
  }
  const uint16_t low[8] = {0x3c00, 0, 0, 0, 0, 0, 0, 0x4000};  // 1, ..., 2
  const uint16_t high[8] = {0xc200, 0, 0, 0, 0, 0, 0, 1};      // -3, ..., 2^-24
  float lanes[16];
  simd::Store(lanes, simd::LoadHalves(low, high));
  EXPECT_EQ(lanes[0], 1);
  EXPECT_EQ(lanes[7], 2);
  EXPECT_EQ(lanes[8], -3);
  EXPECT_EQ(lanes[15], std::ldexp(1.0f, -24));
}

float HalfValue(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int mantissa = bits & 1023;
  return exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                       : std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
}

TEST(RoundToInt8, AgreesWithTheDefinition) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 2'000; ++i) {
    std::vector<float> row(64);
    const float spread = std::exp2(std::uniform_real_distribution<float>(-16, 8)(random));
    for (float& x : row) x = std::normal_distribution<float>(0, spread)(random);
    std::vector<int8_t> codes(row.size());
    const float scale = HalfValue(RoundToInt8(row.data(), 64, codes.data()));
    const std::vector<float> expected = RoundRow(DType::kI8, row.data(), 64);
    for (size_t d = 0; d < row.size(); ++d) {
      EXPECT_EQ(static_cast<float>(codes[d]) * scale, expected[d]);
      // Half a step; the largest one may lie beyond the last code by what the scale's rounding
      // makes of 127 steps, which is more where the scale is a subnormal number.
      EXPECT_LE(std::abs(static_cast<float>(codes[d]) * scale - row[d]),
                0.57f * scale + 127 * std::ldexp(1.0f, -25));
    }
  }
}

TEST(RoundToInt8, HandlesZerosHugeValuesAndNan) {
  std::vector<int8_t> codes(8);
  EXPECT_EQ(RoundToInt8(std::vector<float>(8, 0.0f).data(), 8, codes.data()), 0);
  EXPECT_EQ(codes, std::vector<int8_t>(8, 0));
  // Too small for any scale: zeros too.
  EXPECT_EQ(RoundToInt8(std::vector<float>(8, 1e-30f).data(), 8, codes.data()), 0);
  EXPECT_EQ(codes, std::vector<int8_t>(8, 0));
  EXPECT_EQ(HalfValue(RoundToInt8(std::vector<float>(8, -3e38f).data(), 8, codes.data())), 65504);
  EXPECT_EQ(codes, std::vector<int8_t>(8, -127));
  std::vector<float> row(8, 1.0f);
  row[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(RoundToInt8(row.data(), 8, codes.data()) & 0x7c00, 0x7c00);
}

}  // namespace
}  // namespace octavo
