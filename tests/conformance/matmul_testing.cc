#include "tests/conformance/matmul_testing.h"

#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>

#include "common/checkpoint/dequantize.h"

namespace octavo {
namespace {

uint16_t HalfBits(float x) { return static_cast<uint16_t>(_cvtss_sh(x, 0)); }

}  // namespace

std::vector<Isa> Isas() {
  std::vector<Isa> isas;
  for (const Isa isa : kIsas)
    if (isa <= DetectIsa()) isas.push_back(isa);
  return isas;
}

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
      case DType::kF8E4M3:
      case DType::kF8E5M2:
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

Matrix View(std::vector<float>& values, int64_t cols) {
  return {values.data(), static_cast<int64_t>(values.size()) / cols, cols, cols};
}

}  // namespace octavo
