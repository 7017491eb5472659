// The slice of cuBLASLt that a worker uses, as a plain product on the streams of the stand-in
// runtime: linked in place of libcublasLt. D = alpha op(A) op(B) + beta C (+ bias), column-major,
// types bf16, f16 and f32, sums in f32 in an order of its own.
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "tests/emulation/access_hooks.h"
#include "tests/emulation/emulation.h"
#include "tests/emulation/matmul_algorithms.h"
#include "tests/emulation/stand_in_runtime.h"

namespace octavo::emulation {
namespace {

// In the places of cuBLASLt's opaque structs.
struct Product {
  int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  int32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
};
struct Layout {
  cudaDataType_t type;
  uint64_t rows, cols;
  int64_t stride;
  int32_t order = CUBLASLT_ORDER_COL;
};
struct Preference {
  size_t workspace_bytes = 0;
};
// What the heuristics answer asks for, so that callers must bring it.
constexpr size_t kWorkspaceBytes = 256;

size_t ElementBytes(cudaDataType_t type) { return type == CUDA_R_32F ? 4 : 2; }

float Load(const void* data, cudaDataType_t type, size_t i) {
  if (type == CUDA_R_32F) return static_cast<const float*>(data)[i];
  if (type == CUDA_R_16BF) return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[i]);
  return __half2float(static_cast<const __half*>(data)[i]);
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

Vector LoadBf16(const uint16_t* data) {
  typedef uint16_t Halves __attribute__((vector_size(16)));
  typedef uint32_t Words __attribute__((vector_size(32)));
  Halves halves;
  memcpy(&halves, data, sizeof halves);
  return reinterpret_cast<Vector>(__builtin_convertvector(halves, Words) << 16);
}

// out[m][n] = sum over k of a[n][k] b[m][k]: the product of every Linear, so it has to be fast.
void MultiplyBf16(const uint16_t* a, size_t a_stride, const float* b, size_t depth, size_t cols,
                  size_t rows, float* out) {
  constexpr size_t kRows = 4, kStep = 16;
  for (size_t n = 0; n < cols; ++n) {
    const uint16_t* weights = a + n * a_stride;
    for (size_t m0 = 0; m0 < rows; m0 += kRows) {
      const size_t count = std::min(kRows, rows - m0);
      Vector low[kRows] = {}, high[kRows] = {};
      size_t k = 0;
      for (; k + kStep <= depth; k += kStep) {
        const Vector w0 = LoadBf16(weights + k), w1 = LoadBf16(weights + k + 8);
        for (size_t m = 0; m < count; ++m) {
          Vector x0, x1;
          memcpy(&x0, b + (m0 + m) * depth + k, sizeof x0);
          memcpy(&x1, b + (m0 + m) * depth + k + 8, sizeof x1);
          low[m] += w0 * x0;
          high[m] += w1 * x1;
        }
      }
      for (size_t m = 0; m < count; ++m) {
        const Vector sums = low[m] + high[m];
        float sum = 0;
        for (int i = 0; i < 8; ++i) sum += sums[i];
        for (size_t j = k; j < depth; ++j)
          sum += FromBits<float>(uint64_t{weights[j]} << 16) * b[(m0 + m) * depth + j];
        out[(m0 + m) * cols + n] = sum;
      }
    }
  }
}

struct Operands {
  Product product;
  Layout a, b, c, d;
  const void *a_data, *b_data, *c_data;
  void* d_data;
  float alpha, beta;
};

// A matrix must lie inside one allocation of the device.
void CheckMatrix(const void* data, const Layout& layout, const char* name) {
  const auto last = (layout.cols - 1) * static_cast<uint64_t>(layout.stride) + layout.rows;
  bool bad = true;
  if (!InDevice(data, last * ElementBytes(layout.type), &bad) || bad)
    throw Error(std::string("cublasLtMatmul: matrix ") + name + " is outside device memory");
}

void AddRanges(const void* data, const Layout& layout, std::vector<ByteRange>* ranges) {
  const size_t element = ElementBytes(layout.type);
  const size_t column = layout.rows * element;
  const size_t stride = static_cast<size_t>(layout.stride) * element;
  if (stride == column) return ranges->push_back(RangeOf(data, column * layout.cols));
  for (uint64_t col = 0; col < layout.cols; ++col)
    ranges->push_back(RangeOf(static_cast<const char*>(data) + col * stride, column));
}

void Run(const Operands& o) {
  const bool ta = o.product.transpose_a != CUBLAS_OP_N, tb = o.product.transpose_b != CUBLAS_OP_N;
  const uint64_t cols = o.d.rows, rows = o.d.cols;  // of D as a row-major matrix
  const uint64_t depth = ta ? o.a.rows : o.a.cols;
  CheckMatrix(o.a_data, o.a, "A");
  CheckMatrix(o.b_data, o.b, "B");
  CheckMatrix(o.d_data, o.d, "D");
  if (o.beta != 0) CheckMatrix(o.c_data, o.c, "C");
  auto at = [](const Layout& layout, uint64_t row, uint64_t col) {
    return col * static_cast<uint64_t>(layout.stride) + row;
  };
  std::vector<float> b(depth * rows), result(cols * rows);
  for (uint64_t m = 0; m < rows; ++m)
    for (uint64_t k = 0; k < depth; ++k)
      b[m * depth + k] = Load(o.b_data, o.b.type, tb ? at(o.b, m, k) : at(o.b, k, m));
  if (o.a.type == CUDA_R_16BF && ta) {
    MultiplyBf16(static_cast<const uint16_t*>(o.a_data), static_cast<size_t>(o.a.stride), b.data(),
                 depth, cols, rows, result.data());
  } else {
    for (uint64_t m = 0; m < rows; ++m)
      for (uint64_t n = 0; n < cols; ++n) {
        float sum = 0;
        for (uint64_t k = 0; k < depth; ++k)
          sum += Load(o.a_data, o.a.type, ta ? at(o.a, k, n) : at(o.a, n, k)) * b[m * depth + k];
        result[m * cols + n] = sum;
      }
  }
  for (uint64_t m = 0; m < rows; ++m)
    for (uint64_t n = 0; n < cols; ++n) {
      float value = o.alpha * result[m * cols + n];
      if (o.beta != 0) value += o.beta * Load(o.c_data, o.c.type, at(o.c, n, m));
      if (o.product.epilogue == CUBLASLT_EPILOGUE_BIAS) value += Load(o.product.bias, o.d.type, n);
      Store(o.d_data, o.d.type, at(o.d, n, m), value);
    }
}

}  // namespace

int& MatmulAlgorithms() {
  static int count = 1;
  return count;
}

namespace {

Product* Of(cublasLtMatmulDesc_t product) { return reinterpret_cast<Product*>(product); }
Layout* Of(cublasLtMatrixLayout_t layout) { return reinterpret_cast<Layout*>(layout); }

// Sizes that fit together, as the library checks them.
bool Consistent(const Product& product, const Layout& a, const Layout& b, const Layout& d) {
  const bool ta = product.transpose_a != CUBLAS_OP_N, tb = product.transpose_b != CUBLAS_OP_N;
  auto wide = [](const Layout& layout) {
    return layout.stride >= static_cast<int64_t>(layout.rows) && layout.rows && layout.cols &&
           layout.order == CUBLASLT_ORDER_COL;
  };
  return (ta ? a.cols : a.rows) == d.rows && (tb ? b.rows : b.cols) == d.cols &&
         (ta ? a.rows : a.cols) == (tb ? b.cols : b.rows) && wide(a) && wide(b) && wide(d);
}

// What the library loads for its first product, and keeps. False: there is not as much.
bool Load() {
  static int64_t held = 0;
  StandInRuntime& runtime = StandInRuntime::Get();
  const std::lock_guard lock(runtime.lock());
  const int64_t wanted = GetHiddenMemory().library_bytes;
  if (wanted == held) return true;
  runtime.Drop(held);
  held = runtime.Hold(wanted) ? wanted : 0;
  return held == wanted;
}

template <class T>
cublasStatus_t Take(const void* value, size_t bytes, T* target) {
  if (bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  memcpy(target, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace
}  // namespace octavo::emulation

using octavo::emulation::Layout;
using octavo::emulation::Of;
using octavo::emulation::Preference;
using octavo::emulation::Product;
using octavo::emulation::Take;

extern "C" {

cublasStatus_t CUBLASWINAPI cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(new char);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t CUBLASWINAPI cublasLtDestroy(cublasLtHandle_t handle) {
  delete reinterpret_cast<char*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}
const char* CUBLASWINAPI cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "success" : "failure of the cuBLASLt stand-in";
}
const char* CUBLASWINAPI cublasLtGetStatusName(cublasStatus_t status) {
  return cublasLtGetStatusString(status);
}

cublasStatus_t CUBLASWINAPI cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* product,
                                                     cublasComputeType_t compute,
                                                     cudaDataType_t scale) {
  if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  *product = reinterpret_cast<cublasLtMatmulDesc_t>(new Product);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t CUBLASWINAPI cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t product) {
  delete Of(product);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t CUBLASWINAPI cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t product,
                                                           cublasLtMatmulDescAttributes_t attribute,
                                                           const void* value, size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return Take(value, bytes, &Of(product)->transpose_a);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return Take(value, bytes, &Of(product)->transpose_b);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return Take(value, bytes, &Of(product)->bias);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: {
      const cublasStatus_t status = Take(value, bytes, &Of(product)->epilogue);
      const bool known = Of(product)->epilogue == CUBLASLT_EPILOGUE_DEFAULT ||
                         Of(product)->epilogue == CUBLASLT_EPILOGUE_BIAS;
      return known ? status : CUBLAS_STATUS_NOT_SUPPORTED;
    }
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t CUBLASWINAPI cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout,
                                                       cudaDataType type, uint64_t rows,
                                                       uint64_t cols, int64_t stride) {
  if (type != CUDA_R_32F && type != CUDA_R_16BF && type != CUDA_R_16F)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  *layout = reinterpret_cast<cublasLtMatrixLayout_t>(new Layout{type, rows, cols, stride});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t CUBLASWINAPI cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete Of(layout);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t CUBLASWINAPI cublasLtMatrixLayoutSetAttribute(
    cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute, const void* value,
    size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_ROWS:
      return Take(value, bytes, &Of(layout)->rows);
    case CUBLASLT_MATRIX_LAYOUT_COLS:
      return Take(value, bytes, &Of(layout)->cols);
    case CUBLASLT_MATRIX_LAYOUT_LD:
      return Take(value, bytes, &Of(layout)->stride);
    case CUBLASLT_MATRIX_LAYOUT_ORDER:
      return Take(value, bytes, &Of(layout)->order);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t CUBLASWINAPI cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = reinterpret_cast<cublasLtMatmulPreference_t>(new Preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t CUBLASWINAPI cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete reinterpret_cast<Preference*>(preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t CUBLASWINAPI cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
    const void* value, size_t bytes) {
  if (attribute != CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) return CUBLAS_STATUS_SUCCESS;
  return Take(value, bytes, &reinterpret_cast<Preference*>(preference)->workspace_bytes);
}

cublasStatus_t CUBLASWINAPI cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t, cublasLtMatmulDesc_t product, cublasLtMatrixLayout_t a,
    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
    cublasLtMatmulPreference_t preference, int wanted, cublasLtMatmulHeuristicResult_t results[],
    int* count) {
  *count = 0;
  if (wanted < 1 || !octavo::emulation::Consistent(*Of(product), *Of(a), *Of(b), *Of(d)))
    return CUBLAS_STATUS_INVALID_VALUE;
  const size_t allowed = reinterpret_cast<Preference*>(preference)->workspace_bytes;
  *count = std::min(wanted, octavo::emulation::MatmulAlgorithms());
  for (int i = 0; i < *count; ++i) {
    results[i] = {};
    results[i].workspaceSize = std::min(allowed, octavo::emulation::kWorkspaceBytes << i);
    results[i].state = CUBLAS_STATUS_SUCCESS;
    results[i].wavesCount = 1;
    memcpy(results[i].algo.data, &results[i].workspaceSize, sizeof(size_t));
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t CUBLASWINAPI cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                                           const void* alpha, const void* a_data,
                                           cublasLtMatrixLayout_t a, const void* b_data,
                                           cublasLtMatrixLayout_t b, const void* beta,
                                           const void* c_data, cublasLtMatrixLayout_t c,
                                           void* d_data, cublasLtMatrixLayout_t d,
                                           const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                                           size_t workspace_bytes, cudaStream_t stream) {
  if (!handle || !octavo::emulation::Consistent(*Of(product), *Of(a), *Of(b), *Of(d)))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!octavo::emulation::Load()) return CUBLAS_STATUS_ALLOC_FAILED;
  if (algorithm && algorithm->data[0] > workspace_bytes) return CUBLAS_STATUS_INVALID_VALUE;
  bool bad = true;
  if (workspace_bytes && (!octavo::emulation::InDevice(workspace, workspace_bytes, &bad) || bad))
    return CUBLAS_STATUS_INVALID_VALUE;
  octavo::emulation::Operands operands{*Of(product), *Of(a), *Of(b), *Of(c), *Of(d), a_data,
                                       b_data,       c_data, d_data, 0,      0};
  memcpy(&operands.alpha, alpha, sizeof(float));
  memcpy(&operands.beta, beta, sizeof(float));
  octavo::emulation::Operation operation;
  operation.name = "cublasLtMatmul";
  operation.run = [operands] { octavo::emulation::Run(operands); };
  octavo::emulation::AddRanges(a_data, operands.a, &operation.reads);
  octavo::emulation::AddRanges(b_data, operands.b, &operation.reads);
  if (operands.beta != 0) octavo::emulation::AddRanges(c_data, operands.c, &operation.reads);
  if (operands.product.epilogue == CUBLASLT_EPILOGUE_BIAS)
    operation.reads.push_back(octavo::emulation::RangeOf(
        operands.product.bias, operands.d.rows * octavo::emulation::ElementBytes(operands.d.type)));
  octavo::emulation::AddRanges(d_data, operands.d, &operation.writes);
  operation.writes.push_back(octavo::emulation::RangeOf(
      workspace, algorithm ? static_cast<size_t>(algorithm->data[0]) : workspace_bytes));
  const cudaError_t error = octavo::emulation::Submit(stream, std::move(operation));
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
