// The stand-in for cuBLASLt against sums in double.
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/emulation/device_array.h"
#include "tests/emulation/emulation.h"

namespace octavo::emulation {
namespace {

// out [rows][cols] = x [rows][depth] times the transpose of w [cols][depth], plus beta times out.
void CheckProduct(int rows, int cols, int depth, float beta) {
  std::mt19937 random(3);
  auto normal = [&] { return std::normal_distribution<float>()(random); };
  auto fill = [&](int count) {
    std::vector<__nv_bfloat16> values;
    for (int i = 0; i < count; ++i) values.push_back(__float2bfloat16(normal()));
    return values;
  };
  const auto x = fill(rows * depth), w = fill(cols * depth);
  std::vector<float> out;
  for (int i = 0; i < rows * cols; ++i) out.push_back(normal());
  const DeviceArray<__nv_bfloat16> x_device(x), w_device(w);
  const DeviceArray<float> out_device(out);
  const DeviceStream stream;

  cublasLtHandle_t handle;
  cublasLtMatmulDesc_t product;
  cublasLtMatrixLayout_t a, b, d;
  cublasLtMatmulPreference_t preference;
  ASSERT_EQ(cublasLtCreate(&handle), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F),
            CUBLAS_STATUS_SUCCESS);
  const cublasOperation_t transposed = CUBLAS_OP_T;
  cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                 sizeof transposed);
  const auto n = static_cast<uint64_t>(cols), m = static_cast<uint64_t>(rows);
  const auto k = static_cast<uint64_t>(depth);
  cublasLtMatrixLayoutCreate(&a, CUDA_R_16BF, k, n, depth);
  cublasLtMatrixLayoutCreate(&b, CUDA_R_16BF, k, m, depth);
  cublasLtMatrixLayoutCreate(&d, CUDA_R_32F, n, m, cols);
  cublasLtMatmulPreferenceCreate(&preference);
  cublasLtMatmulHeuristicResult_t best;
  int found = 0;
  ASSERT_EQ(
      cublasLtMatmulAlgoGetHeuristic(handle, product, a, b, d, d, preference, 1, &best, &found),
      CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(found, 1);
  const float alpha = 0.5f;
  EXPECT_EQ(
      cublasLtMatmul(handle, product, &alpha, w_device.data(), a, x_device.data(), b, &beta,
                     out_device.data(), d, out_device.data(), d, &best.algo, nullptr, 0, stream),
      CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(stream.Synchronize(), "");
  const std::vector<float> got = out_device.Get();
  for (int row = 0; row < rows; ++row)
    for (int col = 0; col < cols; ++col) {
      const auto at = static_cast<size_t>(row * cols + col);
      double sum = 0;
      for (int i = 0; i < depth; ++i)
        sum += double{__bfloat162float(x[static_cast<size_t>(row * depth + i)])} *
               __bfloat162float(w[static_cast<size_t>(col * depth + i)]);
      // Sums of some hundred products of size 1, in f32.
      EXPECT_NEAR(got[at], alpha * sum + (beta != 0 ? double{beta} * out[at] : 0), 1e-4);
    }
  // Shapes that do not fit together.
  EXPECT_EQ(
      cublasLtMatmulAlgoGetHeuristic(handle, product, b, a, d, d, preference, 1, &best, &found),
      rows == cols ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE);
  cublasLtMatmulPreferenceDestroy(preference);
  for (cublasLtMatrixLayout_t layout : {a, b, d}) cublasLtMatrixLayoutDestroy(layout);
  cublasLtMatmulDescDestroy(product);
  cublasLtDestroy(handle);
}

TEST(StandInCublasLt, MultipliesBf16) {
  CheckProduct(5, 7, 100, 0);
  CheckProduct(1, 33, 576, 0);
}

TEST(StandInCublasLt, AddsToWhatIsThere) { CheckProduct(9, 4, 33, 1); }

}  // namespace
}  // namespace octavo::emulation
