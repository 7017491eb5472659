// Random weights in every stored format, and a fixture that packs and multiplies them.
#ifndef OCTAVO_TESTS_CONFORMANCE_MATMUL_TESTING_H_
#define OCTAVO_TESTS_CONFORMANCE_MATMUL_TESTING_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "worker/cpu/matmul.h"

namespace octavo {

inline constexpr DType kDTypes[] = {DType::kF32,  DType::kF16,  DType::kBF16, DType::kQ8_0,
                                    DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1,
                                    DType::kQ4_K, DType::kQ5_K, DType::kQ6_K};

// The instruction sets of this machine.
std::vector<Isa> Isas();

// A weight matrix in stored form and as floats.
struct StoredWeight {
  WeightView view;
  std::vector<std::byte> bytes;
  std::vector<float> values;     // [rows, cols], dequantised
  std::vector<float> magnitude;  // [rows, cols]: |d q| + |m|, what rounding errors scale with
};

// Random quants, with scales such that weights are near unit size.
StoredWeight RandomWeight(DType dtype, int64_t rows, int64_t cols, uint32_t seed);

std::vector<float> RandomFloats(int64_t count, uint32_t seed);

Matrix View(std::vector<float>& values, int64_t cols);

struct Shape {
  int64_t n, k;
};

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

}  // namespace octavo

#endif  // OCTAVO_TESTS_CONFORMANCE_MATMUL_TESTING_H_
