// Products with int8 activations against double precision on the same quantised activations, and
// the bit equality that det.2 asks for.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "tests/conformance/matmul_testing.h"
#include "worker/cpu/matmul.h"

namespace octavo {
namespace {

constexpr DType kInt8DTypes[] = {DType::kQ8_0, DType::kQ4_0, DType::kQ4_1};

class MatmulInt8Conformance : public MatmulConformance {
 protected:
  // The kernels are chosen by what this machine has; where it lacks VNNI the backend refuses int8.
  void SetUp() override { vnni_ = HasVnni(); }
  // On the best instruction set, unless one is forced.
  std::vector<float> RunInt8(const PackedLinear& weight, const LinearParams& params, int64_t rows,
                             ThreadPool& pool) {
    return Run(weight, params, rows, isa_, pool, ActivationDType::kInt8);
  }
  // Rows of every batch and thread count, for each format.
  void ExpectSameBits(int64_t cols) {
    for (const DType dtype : kInt8DTypes) {
      const StoredWeight weight = RandomWeight(dtype, 96, cols, 7);
      LinearSource source;
      source.parts = {weight.view};
      const auto packed = Pack(source);
      ASSERT_NE(packed, nullptr);
      std::vector<float> x = RandomFloats(40 * cols, 8);
      LinearParams params;
      params.x = View(x, cols);
      const std::vector<float> all = RunInt8(*packed, params, 40, pool_);
      for (const int64_t rows : {1, 3, 4, 5, 8, 9, 16, 17, 40}) {
        for (ThreadPool* pool : {&pool_, &two_, &three_}) {
          const std::vector<float> some = RunInt8(*packed, params, rows, *pool);
          EXPECT_EQ(std::memcmp(some.data(), all.data(), some.size() * sizeof(float)), 0)
              << Info(dtype).name << " M=" << rows << " threads " << pool->size();
        }
      }
      // Any row alone, through row ids.
      for (const int32_t row : {0, 7, 8, 39}) {
        params.row_ids = &row;
        const std::vector<float> one = RunInt8(*packed, params, 1, two_);
        EXPECT_EQ(std::memcmp(one.data(), all.data() + row * 96, 96 * sizeof(float)), 0);
        params.row_ids = nullptr;
      }
    }
  }
  bool vnni_ = false;
  Isa isa_ = DetectIsa();
};

// What the products see: max|x| / 127 per block of 32, to nearest even.
std::vector<double> Quantized(const std::vector<float>& x, int64_t cols) {
  std::vector<double> out(x.size());
  for (size_t row = 0; row < x.size(); row += static_cast<size_t>(cols)) {
    for (int64_t b = 0; b < cols; b += 32) {
      const int64_t end = std::min<int64_t>(b + 32, cols);
      float most = 0;
      for (int64_t k = b; k < end; ++k)
        most = std::max(most, std::fabs(x[row + static_cast<size_t>(k)]));
      const float inverse = most > 0 ? 127.0f / most : 0.0f;
      const float scale = most / 127.0f;
      for (int64_t k = b; k < end; ++k) {
        const size_t at = row + static_cast<size_t>(k);
        out[at] = double{scale} * std::nearbyintf(x[at] * inverse);
      }
    }
  }
  return out;
}

TEST_F(MatmulInt8Conformance, IsWithinRoundingOfDoublePrecisionOnQuantizedActivations) {
  if (!vnni_) return;
  const Shape shapes[] = {{1, 32}, {31, 64}, {32, 576}, {33, 96}, {96, 576}, {70, 1536}};
  uint32_t seed = 100;
  for (const DType dtype : kInt8DTypes) {
    for (const Shape& shape : shapes) {
      const StoredWeight weight = RandomWeight(dtype, shape.n, shape.k, ++seed);
      LinearSource source;
      source.parts = {weight.view};
      const auto packed = Pack(source);
      ASSERT_NE(packed, nullptr);
      std::vector<float> x = RandomFloats(33 * shape.k, ++seed);
      const std::vector<double> quantized = Quantized(x, shape.k);
      for (const int64_t rows : {1, 2, 7, 8, 9, 17, 33}) {
        LinearParams params;
        params.x = View(x, shape.k);
        const std::vector<float> y = RunInt8(*packed, params, rows, two_);
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t n = 0; n < shape.n; ++n) {
            double expected = 0;
            double magnitude = 0;
            for (int64_t k = 0; k < shape.k; ++k) {
              const size_t w = static_cast<size_t>(n * shape.k + k);
              const double xk = quantized[static_cast<size_t>(r * shape.k + k)];
              expected += xk * weight.values[w];
              magnitude += std::fabs(xk) * weight.magnitude[w];
            }
            // Integer sums are exact; each block adds a few roundings of f32, and biases cancel.
            const double tolerance =
                (8 + static_cast<double>(shape.k) / 32) * 0x1p-24 * 4 * magnitude + 1e-30;
            ASSERT_NEAR(y[static_cast<size_t>(r * shape.n + n)], expected, tolerance)
                << Info(dtype).name << " N=" << shape.n << " K=" << shape.k << " M=" << rows
                << " row " << r << " col " << n;
          }
        }
      }
    }
  }
}

TEST_F(MatmulInt8Conformance, ARowHasTheSameBitsWhateverTheBatchAndThreads) {
  if (!vnni_) return;
  for (const int64_t cols : {576, 1536}) ExpectSameBits(cols);
}

// Whatever the instruction set: rows of a tile from one to three registers, K-blocks over and under
// what is unpacked at a time, outputs that end within a panel.
TEST_F(MatmulInt8Conformance, ARowHasTheSameBitsOnTilesAsOnVectors) {
  if (DetectIsa() < Isa::kAmx) GTEST_SKIP() << "this CPU or system has no AMX";
  const Shape shapes[] = {{31, 32}, {96, 576}, {70, 1536}, {33, 608}};
  for (const DType dtype : kInt8DTypes) {
    for (const Shape& shape : shapes) {
      const StoredWeight weight = RandomWeight(dtype, shape.n, shape.k, 13);
      LinearSource source;
      source.parts = {weight.view};
      const auto packed = Pack(source);
      ASSERT_NE(packed, nullptr);
      std::vector<float> x = RandomFloats(40 * shape.k, 14);
      LinearParams params;
      params.x = View(x, shape.k);
      for (int64_t rows = 1; rows <= 40; ++rows) {
        isa_ = Isa::kAvx512;
        const std::vector<float> vectors = RunInt8(*packed, params, rows, two_);
        isa_ = Isa::kAmx;
        const std::vector<float> tiles = RunInt8(*packed, params, rows, two_);
        ASSERT_EQ(std::memcmp(vectors.data(), tiles.data(), tiles.size() * sizeof(float)), 0)
            << Info(dtype).name << " N=" << shape.n << " K=" << shape.k << " M=" << rows;
      }
    }
  }
}

// A CPU with tiles must still prove what one without them runs.
TEST_F(MatmulInt8Conformance, VectorsAloneKeepARowsBitsToo) {
  if (DetectIsa() < Isa::kAmx) GTEST_SKIP() << "the tests above ran on vectors";
  isa_ = Isa::kAvx512;
  for (const int64_t cols : {576, 1536}) ExpectSameBits(cols);
}

TEST_F(MatmulInt8Conformance, OtherFormatsRunInFloat32) {
  if (!vnni_) return;
  for (const DType dtype : {DType::kBF16, DType::kQ5_0, DType::kQ6_K}) {
    const StoredWeight weight = RandomWeight(dtype, 64, 256, 9);
    LinearSource source;
    source.parts = {weight.view};
    const auto packed = Pack(source);
    ASSERT_NE(packed, nullptr);
    std::vector<float> x = RandomFloats(5 * 256, 10);
    LinearParams params;
    params.x = View(x, 256);
    EXPECT_EQ(RunInt8(*packed, params, 5, two_), Run(*packed, params, 5, isa_, two_));
  }
}

TEST_F(MatmulInt8Conformance, AnInputThatIsNoNumberMakesItsRowNone) {
  if (!vnni_) return;
  const StoredWeight weight = RandomWeight(DType::kQ4_1, 32, 64, 11);
  LinearSource source;
  source.parts = {weight.view};
  const auto packed = Pack(source);
  ASSERT_NE(packed, nullptr);
  for (const float bad : {std::nanf(""), INFINITY}) {
    std::vector<float> x = RandomFloats(3 * 64, 12);
    x[64 + 40] = bad;
    LinearParams params;
    params.x = View(x, 64);
    const std::vector<float> y = RunInt8(*packed, params, 3, pool_);
    for (int n = 0; n < 32; ++n) {
      EXPECT_TRUE(std::isfinite(y[static_cast<size_t>(n)]));
      EXPECT_TRUE(std::isnan(y[static_cast<size_t>(32 + n)]));
      EXPECT_TRUE(std::isfinite(y[static_cast<size_t>(64 + n)]));
    }
  }
}

}  // namespace
}  // namespace octavo
