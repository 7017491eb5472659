#include "tests/emulation/stand_in_matmul.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "tests/emulation/access_hooks.h"
#include "tests/emulation/emulation.h"

namespace octavo::emulation {

size_t ElementBytes(cudaDataType_t type) {
  return type == CUDA_R_32F ? 4 : type == CUDA_R_8F_E4M3 ? 1 : 2;
}
namespace {

constexpr int64_t kE4m3Alignment = 16;  // bytes, and so elements

float OfE4m3(uint8_t code) {
  static const std::array<float, 256> values = [] {
    std::array<float, 256> table{};
    for (size_t i = 0; i < table.size(); ++i)
      table[i] = __half2float(
          __half(__nv_cvt_fp8_to_halfraw(static_cast<__nv_fp8_storage_t>(i), __NV_E4M3)));
    return table;
  }();
  return values[code];
}

float Load(const void* data, cudaDataType_t type, size_t i) {
  switch (type) {
    case CUDA_R_32F:
      return static_cast<const float*>(data)[i];
    case CUDA_R_16BF:
      return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[i]);
    case CUDA_R_8F_E4M3:
      return OfE4m3(static_cast<const uint8_t*>(data)[i]);
    default:
      return __half2float(static_cast<const __half*>(data)[i]);
  }
}
void Store(void* data, cudaDataType_t type, size_t i, float value) {
  if (type == CUDA_R_32F)
    static_cast<float*>(data)[i] = value;
  else if (type == CUDA_R_16BF)
    static_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16(value);
  else
    static_cast<__half*>(data)[i] = __float2half(value);
}

typedef float Vector __attribute__((vector_size(32)));
typedef uint32_t Words __attribute__((vector_size(32)));

Words LoadHalves(const uint16_t* data) {
  typedef uint16_t Halves __attribute__((vector_size(16)));
  Halves halves;
  memcpy(&halves, data, sizeof halves);
  return __builtin_convertvector(halves, Words);
}

// Eight f16: exponent and mantissa under f32's exponent, whose bias is 112 more; subnormal numbers
// come out right, infinity and NaN are put right afterwards.
Vector WidenF16(const uint16_t* data) {
  const Words halves = LoadHalves(data), magnitude = halves & 0x7fffu;
  Words bits = reinterpret_cast<Words>(reinterpret_cast<Vector>(magnitude << 13) * 0x1p112f);
  bits |= reinterpret_cast<Words>(magnitude >= 0x7c00u) & 0x7f800000u;
  return reinterpret_cast<Vector>(bits | (halves & 0x8000u) << 16);
}

// `depth` elements of a row of A as f32.
void Widen(const void* row, cudaDataType_t type, size_t depth, float* out) {
  size_t k = 0;
  if (type == CUDA_R_16BF || type == CUDA_R_16F) {
    const auto* halves = static_cast<const uint16_t*>(row);
    for (; k + 8 <= depth; k += 8) {
      const Vector values = type == CUDA_R_16F
                                ? WidenF16(halves + k)
                                : reinterpret_cast<Vector>(LoadHalves(halves + k) << 16);
      memcpy(out + k, &values, sizeof values);
    }
  }
  for (; k < depth; ++k) out[k] = Load(row, type, k);
}

// sums[m] = sum over k of a[k] b[m][k]: the product of every Linear, so it has to be fast.
void MultiplyRow(const float* a, const float* b, size_t depth, size_t rows, float* sums) {
  constexpr size_t kRows = 4, kStep = 16;
  for (size_t m0 = 0; m0 < rows; m0 += kRows) {
    const size_t count = std::min(kRows, rows - m0);
    Vector low[kRows] = {}, high[kRows] = {};
    size_t k = 0;
    for (; k + kStep <= depth; k += kStep) {
      Vector w0, w1;
      memcpy(&w0, a + k, sizeof w0);
      memcpy(&w1, a + k + 8, sizeof w1);
      for (size_t m = 0; m < count; ++m) {
        Vector x0, x1;
        memcpy(&x0, b + (m0 + m) * depth + k, sizeof x0);
        memcpy(&x1, b + (m0 + m) * depth + k + 8, sizeof x1);
        low[m] += w0 * x0;
        high[m] += w1 * x1;
      }
    }
    for (size_t m = 0; m < count; ++m) {
      const Vector lanes = low[m] + high[m];
      float sum = 0;
      for (int i = 0; i < 8; ++i) sum += lanes[i];
      for (size_t j = k; j < depth; ++j) sum += a[j] * b[(m0 + m) * depth + j];
      sums[m0 + m] = sum;
    }
  }
}

// A matrix must lie inside one allocation of the device.
void CheckMatrix(const void* data, const Layout& layout, const char* name) {
  const auto last = (layout.cols - 1) * static_cast<uint64_t>(layout.stride) + layout.rows;
  bool bad = true;
  if (!InDevice(data, last * ElementBytes(layout.type), &bad) || bad)
    throw Error(std::string("cublasLtMatmul: matrix ") + name + " is outside device memory");
  if (layout.type == CUDA_R_8F_E4M3 && reinterpret_cast<uintptr_t>(data) % kE4m3Alignment != 0)
    throw Error(std::string("cublasLtMatmul: matrix ") + name + " of e4m3 is misaligned");
}
void CheckScales(const float* scales, uint64_t count, const char* name) {
  bool bad = true;
  if (scales && (!InDevice(scales, count * sizeof(float), &bad) || bad))
    throw Error(std::string("cublasLtMatmul: scales of ") + name + " are outside device memory");
}

// Of element i of a vector of scales, or of all.
float ScaleOf(const float* scales, int32_t mode, uint64_t i) {
  if (!scales) return 1;
  return scales[mode == CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F ? i : 0];
}

}  // namespace

void Multiply(const Operands& o) {
  const bool ta = o.product.transpose_a != CUBLAS_OP_N, tb = o.product.transpose_b != CUBLAS_OP_N;
  const uint64_t cols = o.d.rows, rows = o.d.cols;  // of D as a row-major matrix
  const uint64_t depth = ta ? o.a.rows : o.a.cols;
  CheckMatrix(o.a_data, o.a, "A");
  CheckMatrix(o.b_data, o.b, "B");
  CheckMatrix(o.d_data, o.d, "D");
  if (o.beta != 0) CheckMatrix(o.c_data, o.c, "C");
  const bool vectors = o.product.a_scale_mode == CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
  CheckScales(o.product.a_scales, vectors ? cols : 1, "A");
  CheckScales(o.product.b_scales, vectors ? rows : 1, "B");
  auto at = [](const Layout& layout, uint64_t row, uint64_t col) {
    return col * static_cast<uint64_t>(layout.stride) + row;
  };
  std::vector<float> a(depth), b(depth * rows), sums(rows);
  for (uint64_t m = 0; m < rows; ++m)
    for (uint64_t k = 0; k < depth; ++k)
      b[m * depth + k] = Load(o.b_data, o.b.type, tb ? at(o.b, m, k) : at(o.b, k, m));
  for (uint64_t n = 0; n < cols; ++n) {
    if (ta) {
      const auto* bytes = static_cast<const char*>(o.a_data);
      Widen(bytes + at(o.a, 0, n) * ElementBytes(o.a.type), o.a.type, depth, a.data());
    } else {
      for (uint64_t k = 0; k < depth; ++k) a[k] = Load(o.a_data, o.a.type, at(o.a, n, k));
    }
    MultiplyRow(a.data(), b.data(), depth, rows, sums.data());
    const float a_scale = ScaleOf(o.product.a_scales, o.product.a_scale_mode, n);
    for (uint64_t m = 0; m < rows; ++m) {
      const float scale = a_scale * ScaleOf(o.product.b_scales, o.product.b_scale_mode, m);
      float value = o.alpha * scale * sums[m];
      if (o.beta != 0) value += o.beta * Load(o.c_data, o.c.type, at(o.c, n, m));
      if (o.product.epilogue == CUBLASLT_EPILOGUE_BIAS) value += Load(o.product.bias, o.d.type, n);
      Store(o.d_data, o.d.type, at(o.d, n, m), value);
    }
  }
}

bool Consistent(const Product& product, const Layout& a, const Layout& b, const Layout& d) {
  const bool ta = product.transpose_a != CUBLAS_OP_N, tb = product.transpose_b != CUBLAS_OP_N;
  auto wide = [](const Layout& layout) {
    return layout.stride >= static_cast<int64_t>(layout.rows) && layout.rows && layout.cols &&
           layout.order == CUBLASLT_ORDER_COL;
  };
  return (ta ? a.cols : a.rows) == d.rows && (tb ? b.rows : b.cols) == d.cols &&
         (ta ? a.rows : a.cols) == (tb ? b.cols : b.rows) && wide(a) && wide(b) && wide(d);
}

bool Supported(const Product& product, const Layout& a, const Layout& b, const Layout& d) {
  if (a.type != b.type || d.type == CUDA_R_8F_E4M3) return false;
  if (a.type != CUDA_R_8F_E4M3)
    return !product.a_scales && !product.b_scales &&
           product.a_scale_mode == CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F &&
           product.b_scale_mode == CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
  const int capability = GetOptions().capability;
  if (capability < 89 || d.type != CUDA_R_32F || product.epilogue != CUBLASLT_EPILOGUE_DEFAULT ||
      product.transpose_a != CUBLAS_OP_T || product.transpose_b != CUBLAS_OP_N)
    return false;
  for (const int64_t size : {static_cast<int64_t>(a.rows), static_cast<int64_t>(a.cols), a.stride,
                             b.stride, d.stride * int64_t{4}})
    if (size % kE4m3Alignment != 0) return false;
  if (product.a_scale_mode != product.b_scale_mode) return false;
  if (product.a_scale_mode == CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F)
    return capability == 90 && product.a_scales && product.b_scales;
  return product.a_scale_mode == CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
}

}  // namespace octavo::emulation
