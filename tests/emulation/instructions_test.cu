// Matrix instructions against plain loops over the matrices that they stand for.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "tests/emulation/device_array.h"
#include "worker/cuda/kernels/launch.cuh"
#include "worker/cuda/kernels/ptx.cuh"
#include "worker/cuda/kernels/smem.cuh"
#include "worker/cuda/kernels/warp.cuh"

namespace octavo::cuda {

enum class Kind { kBf16, kF16, kE4M3, kS8 };

// d [16][8] = a [16][depth] times the transpose of b [8][depth]. Rows of both are 32 bytes.
template <Kind kKind, class Sum>
__global__ void MultiplyTile(const uint4* a, const uint4* b, Sum* d) {
  Smem smem;
  auto* a_rows = smem.take<uint4>(32);
  auto* b_rows = smem.take<uint4>(16);
  const int lane = static_cast<int>(threadIdx.x);
  ptx::cp_async16(a_rows + lane, a + lane);
  if (lane < 16) ptx::cp_async16(b_rows + lane, b + lane);
  ptx::cp_commit();
  ptx::cp_wait<0>();
  __syncwarp();
  uint32_t a_fragment[4], b_fragment[2];
  ptx::ldmatrix_x4(a_fragment, a_rows + (lane & 15) * 2 + (lane >> 4));
  ptx::ldmatrix_x2(b_fragment, b_rows + (lane & 7) * 2 + (lane >> 3 & 1));
  Sum sums[4] = {};
  if constexpr (kKind == Kind::kBf16) ptx::mma_bf16(sums, a_fragment, b_fragment);
  if constexpr (kKind == Kind::kF16) ptx::mma_f16(sums, a_fragment, b_fragment);
  if constexpr (kKind == Kind::kE4M3) ptx::mma_e4m3(sums, a_fragment, b_fragment);
  if constexpr (kKind == Kind::kS8) ptx::mma_s8(sums, a_fragment, b_fragment);
  for (int i = 0; i < 4; ++i) d[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = sums[i];
}

template <class Element>
double Value(Element element) {
  if constexpr (std::is_same_v<Element, int8_t>)
    return element;
  else
    return static_cast<double>(static_cast<float>(element));
}

template <Kind kKind, class Element, class Sum>
void CheckProduct() {
  constexpr int kDepth = 32 / sizeof(Element);
  std::mt19937 random(7);
  std::vector<Element> a(16 * kDepth), b(8 * kDepth);
  auto fill = [&](std::vector<Element>& values) {
    for (Element& value : values) {
      if constexpr (std::is_same_v<Element, int8_t>)
        value = static_cast<int8_t>(random() % 256);
      else
        value = Element(std::normal_distribution<float>()(random));
    }
  };
  fill(a);
  fill(b);
  auto words = [](const std::vector<Element>& values) {
    std::vector<uint4> result(values.size() * sizeof(Element) / sizeof(uint4));
    std::memcpy(static_cast<void*>(result.data()), values.data(), values.size() * sizeof(Element));
    return result;
  };
  const emulation::DeviceArray<uint4> a_device(words(a)), b_device(words(b));
  const emulation::DeviceArray<Sum> d_device(16 * 8);
  const emulation::DeviceStream stream;
  ASSERT_TRUE(Launch(MultiplyTile<kKind, Sum>, dim3(1), dim3(32), 48 * sizeof(uint4), stream,
                     a_device.data(), b_device.data(), d_device.data())
                  .ok());
  ASSERT_EQ(stream.Synchronize(), "");
  const std::vector<Sum> d = d_device.Get();
  for (int row = 0; row < 16; ++row)
    for (int col = 0; col < 8; ++col) {
      double sum = 0;
      for (int k = 0; k < kDepth; ++k)
        sum += Value(a[row * kDepth + k]) * Value(b[col * kDepth + k]);
      // Products are exact; 32 sums of values up to about 20 are off by 2^-24 of that each.
      EXPECT_NEAR(static_cast<double>(d[row * 8 + col]), sum, 4e-5) << row << ", " << col;
    }
}

TEST(MatrixProduct, OfBf16EqualsTheSums) { CheckProduct<Kind::kBf16, __nv_bfloat16, float>(); }
TEST(MatrixProduct, OfF16EqualsTheSums) { CheckProduct<Kind::kF16, __half, float>(); }
TEST(MatrixProduct, OfE4M3EqualsTheSums) { CheckProduct<Kind::kE4M3, __nv_fp8_e4m3, float>(); }
TEST(MatrixProduct, OfS8EqualsTheSums) { CheckProduct<Kind::kS8, int8_t, int32_t>(); }

// Loads a 16 x 16 matrix of 16-bit elements transposed, then transposes each 8 x 8 part back.
__global__ void TransposeTwice(const uint4* matrix, uint32_t* transposed, uint32_t* restored) {
  Smem smem;
  auto* rows = smem.take<uint4>(32);
  const int lane = static_cast<int>(threadIdx.x);
  rows[lane] = matrix[lane];
  __syncwarp();
  uint32_t fragment[4];
  ptx::ldmatrix_x4_trans(fragment, rows + (lane & 15) * 2 + (lane >> 4));
  for (int i = 0; i < 4; ++i) {
    transposed[i * 32 + lane] = fragment[i];
    restored[i * 32 + lane] = ptx::movmatrix(fragment[i]);
  }
}

TEST(MatrixLoad, TransposesAndMovmatrixTransposesBack) {
  std::vector<uint16_t> matrix(256);
  for (size_t i = 0; i < matrix.size(); ++i) matrix[i] = static_cast<uint16_t>(i);
  std::vector<uint4> words(32);
  std::memcpy(static_cast<void*>(words.data()), matrix.data(), 512);
  const emulation::DeviceArray<uint4> matrix_device(words);
  const emulation::DeviceArray<uint32_t> transposed(128), restored(128);
  const emulation::DeviceStream stream;
  ASSERT_TRUE(Launch(TransposeTwice, dim3(1), dim3(32), 512, stream, matrix_device.data(),
                     transposed.data(), restored.data())
                  .ok());
  ASSERT_EQ(stream.Synchronize(), "");
  const auto got = transposed.Get(), back = restored.Get();
  for (uint32_t part = 0; part < 4; ++part)
    for (uint32_t lane = 0; lane < 32; ++lane) {
      const uint32_t first_row = part % 2 * 8, first_col = part / 2 * 8;
      const uint32_t major = lane / 4, pair = lane % 4 * 2;
      auto element = [&](uint32_t row, uint32_t col) -> uint32_t {
        return matrix[(first_row + row) * 16 + first_col + col];
      };
      EXPECT_EQ(got[part * 32 + lane], element(pair, major) | element(pair + 1, major) << 16);
      EXPECT_EQ(back[part * 32 + lane], element(major, pair) | element(major, pair + 1) << 16);
    }
}

__global__ void Reduce(const float* values, float* sum, float* best) {
  Smem smem;
  float* sums = smem.take<float>(8);
  float* maxima = smem.take<float>(8);
  const float value = values[blockIdx.x * blockDim.x + threadIdx.x];
  const float block_sum = BlockSum(value, sums), block_max = BlockMax(value, maxima);
  if (threadIdx.x == blockDim.x - 1) {
    sum[blockIdx.x] = block_sum;
    best[blockIdx.x] = block_max;
  }
}

TEST(BlockReduction, CoversAllWarps) {
  std::vector<float> values(3 * 96);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 37);
  const emulation::DeviceArray<float> device(values), sum(3), best(3);
  const emulation::DeviceStream stream;
  ASSERT_TRUE(
      Launch(Reduce, dim3(3), dim3(96), 64, stream, device.data(), sum.data(), best.data()).ok());
  ASSERT_EQ(stream.Synchronize(), "");
  const auto sums = sum.Get(), maxima = best.Get();
  for (size_t block = 0; block < 3; ++block) {
    float expected = 0;
    for (size_t i = 0; i < 96; ++i) expected += values[block * 96 + i];
    EXPECT_EQ(sums[block], expected);
    EXPECT_EQ(maxima[block], 36.0f);
  }
}

}  // namespace octavo::cuda
