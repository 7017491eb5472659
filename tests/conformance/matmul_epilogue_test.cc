// What stands around a product: norm, rounding, rows picked by id, bias, residual and gates.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tests/conformance/matmul_testing.h"
#include "worker/cpu/matmul.h"

namespace octavo {
namespace {

double Silu(double x) { return x / (1 + std::exp(-x)); }
double GeluTanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

// Gate and up: in one format they share panels, in two they do not.
TEST_F(MatmulConformance, GatesMatchDoublePrecisionWithAndWithoutSharedPanels) {
  for (const DType up_dtype : {DType::kQ4_1, DType::kQ8_0}) {
    for (const int64_t inner : {1, 16, 48, 50}) {
      const int64_t k = 96;
      const StoredWeight gate = RandomWeight(DType::kQ4_1, inner, k, 7);
      const StoredWeight up = RandomWeight(up_dtype, inner, k, 8);
      LinearSource source;
      source.parts = {gate.view, up.view};
      source.gated = true;
      source.bias = RandomFloats(2 * inner, 9);
      const auto packed = Pack(source);
      ASSERT_NE(packed, nullptr);
      EXPECT_EQ(packed->interleaved(), up_dtype == DType::kQ4_1);
      std::vector<float> x = RandomFloats(20 * k, 10);
      for (const Epilogue epilogue : {Epilogue::kSiluGate, Epilogue::kGeluGate}) {
        LinearParams params;
        params.x = View(x, k);
        params.epilogue = epilogue;
        std::vector<float> first;
        for (const Isa isa : Isas()) {
          for (const int64_t rows : {1, 3, 20}) {
            const std::vector<float> y = Run(*packed, params, rows, isa, two_);
            if (first.empty()) first = Run(*packed, params, 20, isa, pool_);
            ASSERT_EQ(std::memcmp(y.data(), first.data(), y.size() * 4), 0);
            for (int64_t r = 0; r < rows; ++r) {
              for (int64_t n = 0; n < inner; ++n) {
                double g = source.bias[static_cast<size_t>(n)];
                double u = source.bias[static_cast<size_t>(inner + n)];
                for (int64_t i = 0; i < k; ++i) {
                  const double xi = x[static_cast<size_t>(r * k + i)];
                  g += xi * gate.values[static_cast<size_t>(n * k + i)];
                  u += xi * up.values[static_cast<size_t>(n * k + i)];
                }
                const double act = epilogue == Epilogue::kSiluGate ? Silu(g) : GeluTanh(g);
                // Errors of g and u, at most 1e-5 here, times what they multiply.
                ASSERT_NEAR(y[static_cast<size_t>(r * inner + n)], act * u,
                            2e-5 * (1 + std::fabs(g)) * (1 + std::fabs(u)));
              }
            }
          }
        }
      }
    }
  }
}

TEST_F(MatmulConformance, AddsBiasAndResidual) {
  const int64_t n = 50;
  const int64_t k = 64;
  const StoredWeight weight = RandomWeight(DType::kF32, n, k, 1);
  LinearSource source;
  source.parts = {weight.view};
  const auto plain = Pack(source);
  source.bias = RandomFloats(n, 2);
  const auto biased = Pack(source);
  std::vector<float> x = RandomFloats(20 * k, 3);
  for (const Isa isa : Isas()) {
    for (const int64_t rows : {1, 2, 20}) {
      LinearParams params;
      params.x = View(x, k);
      const std::vector<float> y = Run(*plain, params, rows, isa, two_);
      const std::vector<float> y_bias = Run(*biased, params, rows, isa, two_);
      std::vector<float> sum(static_cast<size_t>(rows * (n + 3)), 0.0f);
      const std::vector<float> before = RandomFloats(rows * (n + 3), 4);
      sum = before;
      params.epilogue = Epilogue::kAdd;
      params.out = {sum.data(), rows, n, n + 3};
      ASSERT_TRUE(RunLinear(*biased, params, ActivationDType::kFloat32, isa, two_, scratch_).ok());
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < n + 3; ++c) {
          const size_t at = static_cast<size_t>(r * (n + 3) + c);
          if (c >= n) {
            ASSERT_EQ(sum[at], before[at]) << "beyond the columns";
            continue;
          }
          const size_t i = static_cast<size_t>(r * n + c);
          ASSERT_EQ(y_bias[i], y[i] + source.bias[static_cast<size_t>(c)]);
          ASSERT_EQ(sum[at], before[at] + y_bias[i]);
        }
      }
    }
  }
}

TEST_F(MatmulConformance, StacksPartsOfDifferentFormats) {
  const int64_t k = 256;
  const StoredWeight q = RandomWeight(DType::kQ4_K, 40, k, 1);
  const StoredWeight key = RandomWeight(DType::kQ4_K, 24, k, 2);
  const StoredWeight value = RandomWeight(DType::kQ6_K, 24, k, 3);
  LinearSource stacked;
  stacked.parts = {q.view, key.view, value.view};
  stacked.bias = RandomFloats(88, 4);
  const auto packed = Pack(stacked);
  ASSERT_NE(packed, nullptr);
  EXPECT_EQ(packed->segments().size(), 2u);
  std::vector<float> x = RandomFloats(20 * k, 5);
  LinearParams params;
  params.x = View(x, k);
  const std::vector<float> all = Run(*packed, params, 20, DetectIsa(), two_);
  int64_t first = 0;
  for (const StoredWeight* part : {&q, &key, &value}) {
    LinearSource source;
    source.parts = {part->view};
    source.bias.assign(stacked.bias.begin() + first,
                       stacked.bias.begin() + first + part->view.rows);
    const auto one = Pack(source);
    const std::vector<float> y = Run(*one, params, 20, DetectIsa(), two_);
    for (int64_t r = 0; r < 20; ++r)
      ASSERT_EQ(std::memcmp(y.data() + r * part->view.rows, all.data() + r * 88 + first,
                            static_cast<size_t>(part->view.rows) * 4),
                0);
    first += part->view.rows;
  }
}

TEST_F(MatmulConformance, TakesTheRowsThatRowIdsName) {
  const int64_t k = 64;
  const StoredWeight weight = RandomWeight(DType::kQ8_0, 33, k, 1);
  LinearSource source;
  source.parts = {weight.view};
  const auto packed = Pack(source);
  std::vector<float> x = RandomFloats(40 * k, 2);
  LinearParams params;
  params.x = View(x, k);
  const std::vector<float> all = Run(*packed, params, 40, DetectIsa(), two_);
  const std::vector<int32_t> ids = {39, 0, 7, 7, 20, 1, 2, 3, 4, 5, 6, 38, 37};
  params.row_ids = ids.data();
  for (const int64_t rows : {int64_t{1}, static_cast<int64_t>(ids.size())}) {
    const std::vector<float> y = Run(*packed, params, rows, DetectIsa(), two_);
    for (int64_t r = 0; r < rows; ++r)
      ASSERT_EQ(std::memcmp(y.data() + r * 33, all.data() + ids[static_cast<size_t>(r)] * 33, 132),
                0);
  }
}

TEST_F(MatmulConformance, NormMatchesDoublePrecision) {
  for (const int64_t k : {1, 16, 33, 576, 1536}) {
    std::vector<float> x = RandomFloats(3 * k, 1);
    std::vector<float> norm = RandomFloats(k, 2);
    std::vector<float> first;
    for (const Isa isa : Isas()) {
      std::vector<float> y(x.size());
      ASSERT_TRUE(NormalizeRows(View(x, k), {norm.data(), 1e-5f}, isa, two_, View(y, k)).ok());
      if (first.empty()) first = y;
      EXPECT_EQ(std::memcmp(first.data(), y.data(), y.size() * 4), 0);
      for (int64_t r = 0; r < 3; ++r) {
        double squares = 0;
        for (int64_t i = 0; i < k; ++i)
          squares += double{x[static_cast<size_t>(r * k + i)]} * x[static_cast<size_t>(r * k + i)];
        const double scale = 1 / std::sqrt(squares / static_cast<double>(k) + 1e-5);
        for (int64_t i = 0; i < k; ++i) {
          const double expected =
              x[static_cast<size_t>(r * k + i)] * scale * norm[static_cast<size_t>(i)];
          // Two roundings of products, and those of a sum of K / 16 squares under a root.
          EXPECT_NEAR(y[static_cast<size_t>(r * k + i)], expected,
                      (4 + static_cast<double>(k) / 32) * 0x1p-24 * std::fabs(expected));
        }
      }
    }
  }
}

TEST_F(MatmulConformance, AddNormedAddsTheNormOfEachRow) {
  for (const int64_t rows : {1, 3, 40}) {  // alone and on all threads
    const int64_t k = 577;
    const std::vector<float> x = RandomFloats(rows * k, 1);
    const std::vector<float> norm = RandomFloats(k, 2);
    const std::vector<float> residual = RandomFloats(rows * k, 3);
    for (const Isa isa : Isas()) {
      std::vector<float> normed(x.size()), scratch = x, out = residual;
      const RmsNorm weight = {norm.data(), 1e-6f};
      ASSERT_TRUE(NormalizeRows(View(scratch, k), weight, isa, two_, View(normed, k)).ok());
      ASSERT_TRUE(AddNormedRows({View(scratch, k), weight, View(out, k)}, isa, two_).ok());
      for (size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], residual[i] + normed[i]);
    }
  }
  std::vector<float> x(8), out(12);
  EXPECT_FALSE(AddNormedRows({View(x, 4), {x.data(), 0}, View(out, 4)}, Isas()[0], two_).ok());
  EXPECT_FALSE(AddNormedRows({View(x, 4), {nullptr, 0}, View(x, 4)}, Isas()[0], two_).ok());
}

TEST_F(MatmulConformance, BFloat16ActivationsAreRoundedToNearestEven) {
  const int64_t k = 64;
  const StoredWeight weight = RandomWeight(DType::kQ4_1, 32, k, 1);
  LinearSource source;
  source.parts = {weight.view};
  const auto packed = Pack(source);
  std::vector<float> x = RandomFloats(9 * k, 2);
  x[0] = 1.00390625f;  // halfway between 1 and 1 + 2^-7: to even is 1
  x[1] = 1.01171875f;  // halfway above 1 + 2^-7: to even is 1 + 2^-6
  std::vector<float> rounded = x;
  for (float& v : rounded) {
    uint32_t bits;
    std::memcpy(&bits, &v, 4);
    const uint32_t low = bits & 0xFFFF;
    bits &= 0xFFFF0000u;
    if (low > 0x8000 || (low == 0x8000 && (bits >> 16 & 1))) bits += 0x10000;
    std::memcpy(&v, &bits, 4);
  }
  EXPECT_EQ(rounded[0], 1.0f);
  EXPECT_EQ(rounded[1], 1.015625f);
  for (const Isa isa : Isas()) {
    for (const int64_t rows : {1, 9}) {
      LinearParams params;
      params.x = View(x, k);
      const std::vector<float> y =
          Run(*packed, params, rows, isa, two_, ActivationDType::kBFloat16);
      params.x = View(rounded, k);
      const std::vector<float> expected = Run(*packed, params, rows, isa, two_);
      EXPECT_EQ(std::memcmp(y.data(), expected.data(), y.size() * 4), 0);
    }
  }
}

TEST_F(MatmulConformance, NonFiniteInputsStayInTheirRow) {
  const int64_t k = 64;
  for (const DType dtype : {DType::kF32, DType::kQ4_1, DType::kQ8_0}) {
    const StoredWeight weight = RandomWeight(dtype, 40, k, 1);
    LinearSource source;
    source.parts = {weight.view};
    const auto packed = Pack(source);
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      std::vector<float> x = RandomFloats(14 * k, 2);
      LinearParams params;
      params.x = View(x, k);
      const std::vector<float> good = Run(*packed, params, 14, DetectIsa(), two_);
      x[5 * k + 3] = bad;
      for (const ActivationDType mode : {ActivationDType::kFloat32, ActivationDType::kBFloat16}) {
        for (const Isa isa : Isas()) {
          const std::vector<float> y = Run(*packed, params, 14, isa, two_, mode);
          for (int64_t r = 0; r < 14; ++r) {
            for (int64_t n = 0; n < 40; ++n) {
              const size_t at = static_cast<size_t>(r * 40 + n);
              if (r == 5) {
                EXPECT_FALSE(std::isfinite(y[at]));
              } else if (mode == ActivationDType::kFloat32) {
                EXPECT_EQ(y[at], good[at]);
              } else {
                EXPECT_TRUE(std::isfinite(y[at]));
              }
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace octavo
