// Products of every weight format against double precision on the same dequantised weights, and the
// bit equality that det.2 asks for.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "tests/conformance/matmul_testing.h"
#include "worker/cpu/matmul.h"

namespace octavo {
namespace {

// f32 fma chains of 32, then of K / 32: each of these roundings is at most 2^-24 of a partial sum,
// which stays below the sum of magnitudes; the factor 2 covers a scale and a minimum that cancel.
double Tolerance(double magnitude_sum, int64_t k) {
  return (32 + static_cast<double>(k) / 32) * 0x1p-24 * 2 * magnitude_sum + 1e-30;
}

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

}  // namespace
}  // namespace octavo
