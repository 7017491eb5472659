// The product behind the stand-in for cuBLASLt: D = alpha op(A) op(B) + beta C (+ bias),
// column-major, A and B of bf16, f16, f32 or e4m3, sums in f32 in an order of its own. Of e4m3 it
// has what NVIDIA's manual lists (cublasLtMatmul, "To use FP8 kernels"), for D of f32: no scales,
// or one for each row of op(A) and column of op(B), which capability 9.0 has alone; bias it would
// want in bf16, so it has none.
#ifndef OCTAVO_TESTS_EMULATION_STAND_IN_MATMUL_H_
#define OCTAVO_TESTS_EMULATION_STAND_IN_MATMUL_H_

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>

namespace octavo::emulation {

// In the places of cuBLASLt's opaque structs.
struct Product {
  int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  int32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  int32_t a_scale_mode = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
  int32_t b_scale_mode = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
  const float* a_scales = nullptr;  // device; nullptr: 1
  const float* b_scales = nullptr;
};
struct Layout {
  cudaDataType_t type;
  uint64_t rows, cols;
  int64_t stride;
  int32_t order = CUBLASLT_ORDER_COL;
};
struct Operands {
  Product product;
  Layout a, b, c, d;
  const void *a_data, *b_data, *c_data;
  void* d_data;
  float alpha, beta;
};

size_t ElementBytes(cudaDataType_t type);
// Sizes that fit together, as the library checks them.
bool Consistent(const Product& product, const Layout& a, const Layout& b, const Layout& d);
// Whether the device has such a product.
bool Supported(const Product& product, const Layout& a, const Layout& b, const Layout& d);
// Throws Error for what lies outside device memory, or is not aligned as e4m3 must be.
void Multiply(const Operands& operands);

}  // namespace octavo::emulation

#endif  // OCTAVO_TESTS_EMULATION_STAND_IN_MATMUL_H_
