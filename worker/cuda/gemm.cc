#include "worker/cuda/gemm.h"

#include <algorithm>
#include <bit>

#include "absl/cleanup/cleanup.h"
#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/cuda/cuda_status.h"
#include "worker/cuda/device_memory.h"

namespace octavo::cuda {
namespace {

// Four or five weights a layer shape and up to thousands of row counts of mixed steps. A full cache
// is dropped whole: asking again costs tens of microseconds a shape.
constexpr size_t kMaxPlans = 4096;

// More would make no difference to any algorithm.
constexpr uint64_t kMaxAlignment = 256;

uint32_t AlignmentOf(const void* address) {
  const auto bits = reinterpret_cast<uintptr_t>(address) | kMaxAlignment;
  return static_cast<uint32_t>(uintptr_t{1} << std::countr_zero(bits));
}

absl::Status Check(const GemmArgs& args) {
  const auto positive = [](const char* what, int64_t value) {
    return value > 0 ? absl::OkStatus()
                     : absl::InvalidArgumentError(
                           absl::StrCat("gemm: ", what, " is ", value, "; it must be at least 1"));
  };
  OCTAVO_RETURN_IF_ERROR(positive("in_features", args.in_features));
  OCTAVO_RETURN_IF_ERROR(positive("out_features", args.out_features));
  const auto fits = [](const char* what, int64_t stride, int64_t cols) {
    return stride >= cols
               ? absl::OkStatus()
               : absl::InvalidArgumentError(absl::StrCat("gemm: the stride of ", what, " is ",
                                                         stride, "; its rows have ", cols));
  };
  OCTAVO_RETURN_IF_ERROR(fits("x", args.x_stride, args.in_features));
  OCTAVO_RETURN_IF_ERROR(fits("the weight", args.weight_stride, args.in_features));
  OCTAVO_RETURN_IF_ERROR(fits("out", args.out_stride, args.out_features));
  if (args.x == nullptr || args.weight == nullptr || args.out == nullptr)
    return absl::InvalidArgumentError("gemm: x, weight or out is missing");
  return absl::OkStatus();
}

template <typename T>
absl::Status Set(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t attribute,
                 const T& value) {
  return ToStatus(cublasLtMatmulDescSetAttribute(product, attribute, &value, sizeof(value)),
                  "cublasLtMatmulDescSetAttribute");
}

template <typename T>
absl::Status Set(cublasLtMatmulPreference_t preference,
                 cublasLtMatmulPreferenceAttributes_t attribute, const T& value) {
  return ToStatus(
      cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)),
      "cublasLtMatmulPreferenceSetAttribute");
}

absl::Status MakeLayout(cudaDataType_t type, int64_t rows, int64_t cols, int64_t stride,
                        cublasLtMatrixLayout_t* layout) {
  return ToStatus(cublasLtMatrixLayoutCreate(layout, type, static_cast<uint64_t>(rows),
                                             static_cast<uint64_t>(cols), stride),
                  "cublasLtMatrixLayoutCreate");
}

}  // namespace

Gemm::Plan::~Plan() {
  if (product != nullptr) cublasLtMatmulDescDestroy(product);
  for (cublasLtMatrixLayout_t layout : {weight, x, out})
    if (layout != nullptr) cublasLtMatrixLayoutDestroy(layout);
}

absl::StatusOr<std::unique_ptr<Gemm>> Gemm::Create() {
  auto gemm = absl::WrapUnique(new Gemm());
  OCTAVO_RETURN_IF_ERROR(ToStatus(cublasLtCreate(&gemm->handle_), "cublasLtCreate"));
  OCTAVO_ASSIGN_OR_RETURN(gemm->workspace_, AllocateDevice(kWorkspaceBytes));
  return gemm;
}

Gemm::~Gemm() {
  if (handle_ != nullptr) cublasLtDestroy(handle_);
}

absl::Status Gemm::Run(const GemmArgs& args, cudaStream_t stream) {
  if (args.rows == 0) return absl::OkStatus();
  OCTAVO_RETURN_IF_ERROR(Check(args));
  const Shape shape = {args.rows,
                       args.in_features,
                       args.out_features,
                       args.x_stride,
                       args.weight_stride,
                       args.out_stride,
                       AlignmentOf(args.x),
                       AlignmentOf(args.weight),
                       AlignmentOf(args.out),
                       args.add,
                       args.bias != nullptr};
  auto found = plans_.find(shape);
  if (found == plans_.end()) {
    if (plans_.size() >= kMaxPlans) plans_.clear();
    OCTAVO_ASSIGN_OR_RETURN(std::unique_ptr<Plan> plan, MakePlan(shape, args.bias));
    found = plans_.emplace(shape, std::move(plan)).first;
  }
  const Plan& plan = *found->second;
  if (args.bias != nullptr)
    OCTAVO_RETURN_IF_ERROR(Set(plan.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, args.bias));
  const float alpha = 1.0f, beta = args.add ? 1.0f : 0.0f;
  return ToStatus(cublasLtMatmul(handle_, plan.product, &alpha, args.weight, plan.weight, args.x,
                                 plan.x, &beta, args.out, plan.out, args.out, plan.out,
                                 &plan.algorithm, workspace_.data(), workspace_.bytes(), stream),
                  "cublasLtMatmul");
}

absl::StatusOr<std::unique_ptr<Gemm::Plan>> Gemm::MakePlan(const Shape& shape,
                                                           const float* bias) const {
  auto plan = std::make_unique<Plan>();
  OCTAVO_RETURN_IF_ERROR(
      ToStatus(cublasLtMatmulDescCreate(&plan->product, CUBLAS_COMPUTE_32F, CUDA_R_32F),
               "cublasLtMatmulDescCreate"));
  const int32_t transposed = CUBLAS_OP_T;
  OCTAVO_RETURN_IF_ERROR(Set(plan->product, CUBLASLT_MATMUL_DESC_TRANSA, transposed));
  if (shape.bias) {
    const int32_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    OCTAVO_RETURN_IF_ERROR(Set(plan->product, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue));
    OCTAVO_RETURN_IF_ERROR(Set(plan->product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias));
  }
  OCTAVO_RETURN_IF_ERROR(MakeLayout(CUDA_R_16BF, shape.in_features, shape.out_features,
                                    shape.weight_stride, &plan->weight));
  OCTAVO_RETURN_IF_ERROR(
      MakeLayout(CUDA_R_16BF, shape.in_features, shape.rows, shape.x_stride, &plan->x));
  OCTAVO_RETURN_IF_ERROR(
      MakeLayout(CUDA_R_32F, shape.out_features, shape.rows, shape.out_stride, &plan->out));
  OCTAVO_RETURN_IF_ERROR(ChooseAlgorithm(shape, *plan));
  return plan;
}

absl::Status Gemm::ChooseAlgorithm(const Shape& shape, Plan& plan) const {
  cublasLtMatmulPreference_t preference = nullptr;
  OCTAVO_RETURN_IF_ERROR(
      ToStatus(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate"));
  const absl::Cleanup destroy = [preference] { cublasLtMatmulPreferenceDestroy(preference); };
  const uint64_t workspace_bytes = kWorkspaceBytes;
  OCTAVO_RETURN_IF_ERROR(
      Set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes));
  OCTAVO_RETURN_IF_ERROR(
      Set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, shape.weight_alignment));
  OCTAVO_RETURN_IF_ERROR(
      Set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, shape.x_alignment));
  OCTAVO_RETURN_IF_ERROR(
      Set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, shape.out_alignment));
  OCTAVO_RETURN_IF_ERROR(
      Set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, shape.out_alignment));
  cublasLtMatmulHeuristicResult_t best = {};
  int found = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle_, plan.product, plan.weight, plan.x, plan.out, plan.out,
                                     preference, /*requestedAlgoCount=*/1, &best, &found);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || (status == CUBLAS_STATUS_SUCCESS && found == 0))
    return absl::UnimplementedError(
        absl::StrCat("gemm: cuBLASLt has no algorithm for ", shape.rows, " x ", shape.in_features,
                     " times ", shape.in_features, " x ", shape.out_features, " in bf16"));
  OCTAVO_RETURN_IF_ERROR(ToStatus(status, "cublasLtMatmulAlgoGetHeuristic"));
  plan.algorithm = best.algo;
  return absl::OkStatus();
}

}  // namespace octavo::cuda
