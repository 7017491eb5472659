// The slice of cuBLASLt that a worker uses, on the streams of the stand-in runtime: linked in place
// of libcublasLt. stand_in_matmul.h has the arithmetic.
#include <cublasLt.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "tests/emulation/access_hooks.h"
#include "tests/emulation/emulation.h"
#include "tests/emulation/matmul_algorithms.h"
#include "tests/emulation/stand_in_matmul.h"
#include "tests/emulation/stand_in_runtime.h"

namespace octavo::emulation {
namespace {

// In the place of cuBLASLt's opaque struct.
struct Preference {
  size_t workspace_bytes = 0;
};
// What the heuristics answer asks for, so that callers must bring it.
constexpr size_t kWorkspaceBytes = 256;

// `count`: of scales when there is one for each vector.
void AddScales(const float* scales, int32_t mode, uint64_t count, std::vector<ByteRange>* ranges) {
  if (scales == nullptr) return;
  const bool vectors = mode == CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
  ranges->push_back(RangeOf(scales, (vectors ? count : 1) * sizeof(float)));
}

void AddRanges(const void* data, const Layout& layout, std::vector<ByteRange>* ranges) {
  const size_t element = ElementBytes(layout.type);
  const size_t column = layout.rows * element;
  const size_t stride = static_cast<size_t>(layout.stride) * element;
  if (stride == column) return ranges->push_back(RangeOf(data, column * layout.cols));
  for (uint64_t col = 0; col < layout.cols; ++col)
    ranges->push_back(RangeOf(static_cast<const char*>(data) + col * stride, column));
}

}  // namespace

int& MatmulAlgorithms() {
  static int count = 1;
  return count;
}

namespace {

Product* Of(cublasLtMatmulDesc_t product) { return reinterpret_cast<Product*>(product); }
Layout* Of(cublasLtMatrixLayout_t layout) { return reinterpret_cast<Layout*>(layout); }

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
    case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER:
      return Take(value, bytes, &Of(product)->a_scales);
    case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER:
      return Take(value, bytes, &Of(product)->b_scales);
    case CUBLASLT_MATMUL_DESC_A_SCALE_MODE:
      return Take(value, bytes, &Of(product)->a_scale_mode);
    case CUBLASLT_MATMUL_DESC_B_SCALE_MODE:
      return Take(value, bytes, &Of(product)->b_scale_mode);
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
  if (type != CUDA_R_32F && type != CUDA_R_16BF && type != CUDA_R_16F && type != CUDA_R_8F_E4M3)
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
  if (!octavo::emulation::Supported(*Of(product), *Of(a), *Of(b), *Of(d)))
    return CUBLAS_STATUS_NOT_SUPPORTED;
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
  if (!octavo::emulation::Supported(*Of(product), *Of(a), *Of(b), *Of(d)))
    return CUBLAS_STATUS_NOT_SUPPORTED;
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
  operation.run = [operands] { octavo::emulation::Multiply(operands); };
  octavo::emulation::AddRanges(a_data, operands.a, &operation.reads);
  octavo::emulation::AddRanges(b_data, operands.b, &operation.reads);
  if (operands.beta != 0) octavo::emulation::AddRanges(c_data, operands.c, &operation.reads);
  if (operands.product.epilogue == CUBLASLT_EPILOGUE_BIAS)
    operation.reads.push_back(octavo::emulation::RangeOf(
        operands.product.bias, operands.d.rows * octavo::emulation::ElementBytes(operands.d.type)));
  octavo::emulation::AddScales(operands.product.a_scales, operands.product.a_scale_mode,
                               operands.d.rows, &operation.reads);
  octavo::emulation::AddScales(operands.product.b_scales, operands.product.b_scale_mode,
                               operands.d.cols, &operation.reads);
  octavo::emulation::AddRanges(d_data, operands.d, &operation.writes);
  operation.writes.push_back(octavo::emulation::RangeOf(
      workspace, algorithm ? static_cast<size_t>(algorithm->data[0]) : workspace_bytes));
  const cudaError_t error = octavo::emulation::Submit(stream, std::move(operation));
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
