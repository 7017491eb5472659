// Products of every weight format against double precision on the same dequantised weights, and the
// bit equality that det.2 asks for.
#include <gtest/gtest.h>
#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/checkpoint/dequantize.h"
#include "worker/cpu/matmul.h"

namespace octavo {
namespace {

constexpr DType kDTypes[] = {DType::kF32,  DType::kF16,  DType::kBF16, DType::kQ8_0,
                             DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1,
                             DType::kQ4_K, DType::kQ5_K, DType::kQ6_K};

std::vector<Isa> Isas() {
  std::vector<Isa> isas = {Isa::kAvx2};
  if (DetectIsa() == Isa::kAvx512) isas.push_back(Isa::kAvx512);
  return isas;
}

uint16_t HalfBits(float x) { return static_cast<uint16_t>(_cvtss_sh(x, 0)); }

// A weight matrix in stored form and as floats.
struct StoredWeight {
  WeightView view;
  std::vector<std::byte> bytes;
  std::vector<float> values;     // [rows, cols], dequantised
  std::vector<float> magnitude;  // [rows, cols]: |d q| + |m|, what rounding errors scale with
};

// Random quants, with scales such that weights are near unit size.
StoredWeight RandomWeight(DType dtype, int64_t rows, int64_t cols, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  StoredWeight weight;
  const int64_t row_bytes = StorageBytes(dtype, cols);
  weight.bytes.resize(static_cast<size_t>(rows * row_bytes));
  for (std::byte& b : weight.bytes) b = static_cast<std::byte>(random());
  uint8_t* data = reinterpret_cast<uint8_t*>(weight.bytes.data());
  const DTypeInfo info = Info(dtype);
  auto put_half = [](uint8_t* at, float x) {
    const uint16_t bits = HalfBits(x);
    std::memcpy(at, &bits, 2);
  };
  for (int64_t i = 0; i < rows * cols / info.block_elements; ++i) {
    uint8_t* block = data + i * info.block_bytes;
    const float d = 0.05f * normal(random);
    switch (dtype) {
      case DType::kF32: {
        const float x = normal(random);
        std::memcpy(block, &x, 4);
        break;
      }
      case DType::kF16:
        put_half(block, normal(random));
        break;
      case DType::kBF16: {
        const float x = normal(random);
        std::memcpy(block, reinterpret_cast<const uint8_t*>(&x) + 2, 2);
        break;
      }
      case DType::kQ8_0:
        put_half(block, d / 8);
        break;
      case DType::kQ4_0:
      case DType::kQ5_0:
        put_half(block, d);
        break;
      case DType::kQ4_1:
      case DType::kQ5_1:
        put_half(block, d);
        put_half(block + 2, -8 * d * (1 + 0.1f * normal(random)));
        break;
      case DType::kQ4_K:
      case DType::kQ5_K:
        put_half(block, d / 32);
        put_half(block + 2, d / 8);
        break;
      case DType::kQ6_K:
        put_half(block + 208, d / 64);
        break;
      case DType::kI8:
        break;
    }
  }
  weight.values.resize(static_cast<size_t>(rows * cols));
  for (int64_t r = 0; r < rows; ++r) {
    EXPECT_TRUE(DequantizeRow(dtype, weight.bytes.data() + r * row_bytes, cols,
                              weight.values.data() + r * cols)
                    .ok());
  }
  // Scales are one magnitude, so a block's largest weight bounds |d q| and |m| within a factor.
  weight.magnitude.resize(weight.values.size());
  for (int64_t i = 0; i < rows * cols; i += 16) {
    float largest = 0;
    const int64_t end = std::min(i + 16, rows * cols);
    for (int64_t k = i; k < end; ++k)
      largest = std::max(largest, std::fabs(weight.values[static_cast<size_t>(k)]));
    for (int64_t k = i; k < end; ++k)
      weight.magnitude[static_cast<size_t>(k)] =
          IsFloat(dtype) ? std::fabs(weight.values[static_cast<size_t>(k)]) : largest;
  }
  weight.view = {std::string(Info(dtype).name), dtype, rows, cols, weight.bytes.data()};
  return weight;
}

std::vector<float> RandomFloats(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& v : values) v = normal(random);
  return values;
}

class MatmulConformance : public ::testing::Test {
 protected:
  std::unique_ptr<PackedLinear> Pack(const LinearSource& source) {
    auto packed = PackedLinear::Pack(source, arena_, pool_);
    EXPECT_TRUE(packed.ok()) << packed.status();
    return packed.ok() ? *std::move(packed) : nullptr;
  }
  // [rows, cols of the output], from zeros.
  std::vector<float> Run(const PackedLinear& weight, LinearParams params, int64_t rows, Isa isa,
                         ThreadPool& pool, ActivationDType dtype = ActivationDType::kFloat32) {
    const int64_t cols = weight.out_features() / (weight.gated() ? 2 : 1);
    std::vector<float> out(static_cast<size_t>(rows * cols), 0.0f);
    params.out = {out.data(), rows, cols, cols};
    const absl::Status status = RunLinear(weight, params, dtype, isa, pool, scratch_);
    EXPECT_TRUE(status.ok()) << status;
    return out;
  }

  WeightArena arena_;
  ThreadPool pool_{1};
  ThreadPool two_{2};
  ThreadPool three_{3};
  MatmulScratch scratch_;
};

Matrix View(std::vector<float>& values, int64_t cols) {
  return {values.data(), static_cast<int64_t>(values.size()) / cols, cols, cols};
}

// f32 fma chains of 32, then of K / 32: each of these roundings is at most 2^-24 of a partial sum,
// which stays below the sum of magnitudes; the factor 2 covers a scale and a minimum that cancel.
double Tolerance(double magnitude_sum, int64_t k) {
  return (32 + static_cast<double>(k) / 32) * 0x1p-24 * 2 * magnitude_sum + 1e-30;
}

struct Shape {
  int64_t n, k;
};

TEST_F(MatmulConformance, EveryFormatAndShapeIsWithinRoundingOfDoublePrecision) {
  const Shape shapes[] = {{1, 32},  {15, 64},  {16, 48},  {31, 33},   {32, 576},
                          {33, 64}, {96, 576}, {40, 256}, {70, 1536}, {96, 768}};
  const int64_t row_counts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 17, 33};
  uint32_t seed = 1;
  for (const DType dtype : kDTypes) {
    for (const Shape& shape : shapes) {
      if (shape.k % Info(dtype).block_elements != 0) continue;
      const StoredWeight weight = RandomWeight(dtype, shape.n, shape.k, ++seed);
      LinearSource source;
      source.parts = {weight.view};
      const auto packed = Pack(source);
      ASSERT_NE(packed, nullptr);
      std::vector<float> x = RandomFloats(33 * shape.k, ++seed);
      for (const int64_t rows : row_counts) {
        for (const Isa isa : Isas()) {
          LinearParams params;
          params.x = View(x, shape.k);
          const std::vector<float> y = Run(*packed, params, rows, isa, two_);
          for (int64_t r = 0; r < rows; ++r) {
            for (int64_t n = 0; n < shape.n; ++n) {
              double expected = 0;
              double magnitude = 0;
              for (int64_t k = 0; k < shape.k; ++k) {
                const double xk = x[static_cast<size_t>(r * shape.k + k)];
                expected += xk * weight.values[static_cast<size_t>(n * shape.k + k)];
                magnitude += std::fabs(xk) * weight.magnitude[static_cast<size_t>(n * shape.k + k)];
              }
              ASSERT_NEAR(y[static_cast<size_t>(r * shape.n + n)], expected,
                          Tolerance(magnitude, shape.k))
                  << Info(dtype).name << " N=" << shape.n << " K=" << shape.k << " M=" << rows
                  << " row " << r << " col " << n << " " << Name(isa);
            }
          }
        }
      }
    }
  }
}

TEST_F(MatmulConformance, BitsDoNotDependOnBatchThreadsOrInstructionSet) {
  uint32_t seed = 100;
  for (const DType dtype : kDTypes) {
    for (const Shape& shape : {Shape{96, 768}, Shape{50, 256}, Shape{17, 1536}}) {
      const StoredWeight weight = RandomWeight(dtype, shape.n, shape.k, ++seed);
      LinearSource source;
      source.parts = {weight.view};
      const auto packed = Pack(source);
      ASSERT_NE(packed, nullptr);
      std::vector<float> x = RandomFloats(400 * shape.k, ++seed);
      std::vector<float> norm = RandomFloats(shape.k, ++seed);
      LinearParams params;
      params.norm = {norm.data(), 1e-5f};
      // The reference: each row alone.
      std::vector<float> alone;
      for (int64_t r = 0; r < 400; ++r) {
        params.x = {x.data() + r * shape.k, 1, shape.k, shape.k};
        const std::vector<float> y = Run(*packed, params, 1, Isa::kAvx2, pool_);
        alone.insert(alone.end(), y.begin(), y.end());
      }
      for (const int64_t rows : {1, 2, 3, 4, 5, 7, 8, 12, 13, 16, 31, 32, 33, 64, 100, 399}) {
        for (const int64_t first : {0, 1}) {
          for (ThreadPool* pool : {&pool_, &two_, &three_}) {
            for (const Isa isa : Isas()) {
              params.x = {x.data() + first * shape.k, rows, shape.k, shape.k};
              const std::vector<float> y = Run(*packed, params, rows, isa, *pool);
              ASSERT_EQ(std::memcmp(y.data(), alone.data() + first * shape.n, y.size() * 4), 0)
                  << Info(dtype).name << " N=" << shape.n << " K=" << shape.k << " M=" << rows
                  << " from row " << first << " threads " << pool->size() << " " << Name(isa);
            }
          }
        }
      }
    }
  }
}

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
