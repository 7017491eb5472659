#include "worker/cuda/gemm.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/status_naming.h"
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

std::string NameOf(DType type) { return std::string(Info(type).name); }

cudaDataType_t CudaTypeOf(DType type) {
  switch (type) {
    case DType::kF16:
      return CUDA_R_16F;
    case DType::kF8E4M3:
      return CUDA_R_8F_E4M3;
    default:
      return CUDA_R_16BF;
  }
}

absl::Status CheckHalves(const GemmArgs& args) {
  if (args.type != DType::kBF16 && args.type != DType::kF16)
    return absl::UnimplementedError(absl::StrCat("gemm: no products of ", NameOf(args.type)));
  if (args.x_scales != nullptr || args.weight_scales != nullptr)
    return absl::InvalidArgumentError(
        absl::StrCat("gemm: scales come with e4m3, not with ", NameOf(args.type)));
  return absl::OkStatus();
}

absl::Status CheckE4m3(const GemmArgs& args) {
  constexpr int64_t kMultiple = Gemm::kE4m3Multiple;
  const std::pair<const char*, int64_t> sizes[] = {
      {"in_features", args.in_features},
      {"out_features", args.out_features},
      {"the stride of x", args.x_stride},
      {"the stride of the weight", args.weight_stride}};
  for (const auto& [what, value] : sizes)
    if (value % kMultiple != 0)
      return absl::InvalidArgumentError(
          absl::StrCat("gemm: ", what, " is ", value, "; e4m3 needs a multiple of ", kMultiple));
  for (const void* address : {args.x, args.weight})
    if (AlignmentOf(address) < kMultiple)
      return absl::InvalidArgumentError(absl::StrCat("gemm: an operand of e4m3 is aligned to ",
                                                     AlignmentOf(address), " bytes; it must be to ",
                                                     kMultiple));
  if (args.bias != nullptr)
    return absl::InvalidArgumentError("gemm: products of e4m3 add no fp32 bias");
  if ((args.x_scales == nullptr) != (args.weight_scales == nullptr))
    return absl::InvalidArgumentError("gemm: e4m3 has the scales of one operand only");
  return absl::OkStatus();
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
  return args.type == DType::kF8E4M3 ? CheckE4m3(args) : CheckHalves(args);
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

// The weight is cuBLAS's A, x its B.
absl::Status SetScales(const GemmArgs& args, cublasLtMatmulDesc_t product) {
  if (args.x_scales == nullptr) return absl::OkStatus();
  OCTAVO_RETURN_IF_ERROR(Set(product, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, args.weight_scales));
  return Set(product, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, args.x_scales);
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
  absl::StatusOr<Buffer> workspace = AllocateDevice(kWorkspaceBytes);
  if (!workspace.ok()) return Naming("the workspace of cuBLASLt", workspace.status());
  gemm->workspace_ = *std::move(workspace);
  for (cudaEvent_t* event : {&gemm->begin_, &gemm->end_})
    OCTAVO_RETURN_IF_ERROR(ToStatus(cudaEventCreate(event), "cudaEventCreate"));
  return gemm;
}

Gemm::~Gemm() {
  for (cudaEvent_t event : {begin_, end_})
    if (event != nullptr) cudaEventDestroy(event);
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
                       args.bias != nullptr,
                       args.x_scales != nullptr,
                       args.type};
  auto found = plans_.find(shape);
  if (found == plans_.end()) {
    if (plans_.size() >= kMaxPlans) plans_.clear();
    OCTAVO_ASSIGN_OR_RETURN(std::unique_ptr<Plan> plan, MakePlan(shape, args, stream));
    found = plans_.emplace(shape, std::move(plan)).first;
  }
  const Plan& plan = *found->second;
  return Multiply(args, plan, plan.algorithm, args.out, stream);
}

absl::Status Gemm::Multiply(const GemmArgs& args, const Plan& plan,
                            const cublasLtMatmulAlgo_t& algorithm, float* out,
                            cudaStream_t stream) {
  if (args.bias != nullptr)
    OCTAVO_RETURN_IF_ERROR(Set(plan.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, args.bias));
  OCTAVO_RETURN_IF_ERROR(SetScales(args, plan.product));
  const float alpha = 1.0f, beta = args.add ? 1.0f : 0.0f;
  return ToStatus(cublasLtMatmul(handle_, plan.product, &alpha, args.weight, plan.weight, args.x,
                                 plan.x, &beta, out, plan.out, out, plan.out, &algorithm,
                                 workspace_.data(), workspace_.bytes(), stream),
                  "cublasLtMatmul");
}

absl::StatusOr<float> Gemm::Time(const GemmArgs& args, const Plan& plan,
                                 const cublasLtMatmulAlgo_t& algorithm, float* scratch,
                                 cudaStream_t stream) {
  constexpr int kRepeats = 5;
  OCTAVO_RETURN_IF_ERROR(Multiply(args, plan, algorithm, scratch, stream));  // loads the kernel
  OCTAVO_RETURN_IF_ERROR(ToStatus(cudaEventRecord(begin_, stream), "cudaEventRecord"));
  for (int i = 0; i < kRepeats; ++i)
    OCTAVO_RETURN_IF_ERROR(Multiply(args, plan, algorithm, scratch, stream));
  OCTAVO_RETURN_IF_ERROR(ToStatus(cudaEventRecord(end_, stream), "cudaEventRecord"));
  OCTAVO_RETURN_IF_ERROR(ToStatus(cudaEventSynchronize(end_), "cudaEventSynchronize"));
  float milliseconds = 0;
  OCTAVO_RETURN_IF_ERROR(
      ToStatus(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime"));
  return milliseconds / kRepeats;
}

absl::StatusOr<std::unique_ptr<Gemm::Plan>> Gemm::MakePlan(const Shape& shape, const GemmArgs& args,
                                                           cudaStream_t stream) {
  auto plan = std::make_unique<Plan>();
  OCTAVO_RETURN_IF_ERROR(
      ToStatus(cublasLtMatmulDescCreate(&plan->product, CUBLAS_COMPUTE_32F, CUDA_R_32F),
               "cublasLtMatmulDescCreate"));
  const int32_t transposed = CUBLAS_OP_T;
  OCTAVO_RETURN_IF_ERROR(Set(plan->product, CUBLASLT_MATMUL_DESC_TRANSA, transposed));
  if (shape.bias) {
    const int32_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    OCTAVO_RETURN_IF_ERROR(Set(plan->product, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue));
    OCTAVO_RETURN_IF_ERROR(Set(plan->product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, args.bias));
  }
  if (shape.scaled) {
    const int32_t mode = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
    for (const auto attribute :
         {CUBLASLT_MATMUL_DESC_A_SCALE_MODE, CUBLASLT_MATMUL_DESC_B_SCALE_MODE})
      OCTAVO_RETURN_IF_ERROR(Set(plan->product, attribute, mode));
    OCTAVO_RETURN_IF_ERROR(SetScales(args, plan->product));
  }
  const cudaDataType_t type = CudaTypeOf(shape.type);
  OCTAVO_RETURN_IF_ERROR(
      MakeLayout(type, shape.in_features, shape.out_features, shape.weight_stride, &plan->weight));
  OCTAVO_RETURN_IF_ERROR(MakeLayout(type, shape.in_features, shape.rows, shape.x_stride, &plan->x));
  OCTAVO_RETURN_IF_ERROR(
      MakeLayout(CUDA_R_32F, shape.out_features, shape.rows, shape.out_stride, &plan->out));
  OCTAVO_RETURN_IF_ERROR(ChooseAlgorithm(shape, args, stream, *plan));
  return plan;
}

absl::Status Gemm::ChooseAlgorithm(const Shape& shape, const GemmArgs& args, cudaStream_t stream,
                                   Plan& plan) {
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
  cublasLtMatmulHeuristicResult_t candidates[kCandidates] = {};
  int found = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle_, plan.product, plan.weight, plan.x, plan.out, plan.out,
                                     preference, kCandidates, candidates, &found);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || (status == CUBLAS_STATUS_SUCCESS && found == 0))
    return absl::UnimplementedError(
        absl::StrCat("gemm: cuBLASLt has no algorithm for ", shape.rows, " x ", shape.in_features,
                     " times ", shape.in_features, " x ", shape.out_features, " in ",
                     NameOf(shape.type), shape.scaled ? " with scales of rows" : ""));
  OCTAVO_RETURN_IF_ERROR(ToStatus(status, "cublasLtMatmulAlgoGetHeuristic"));
  plan.algorithm = candidates[0].algo;
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  OCTAVO_RETURN_IF_ERROR(
      ToStatus(cudaStreamIsCapturing(stream, &capture), "cudaStreamIsCapturing"));
  if (found == 1 || shape.rows > kMaxTimedRows || capture != cudaStreamCaptureStatusNone)
    return absl::OkStatus();
  const absl::StatusOr<Buffer> scratch =
      AllocateDevice(static_cast<size_t>(shape.rows * shape.out_stride) * sizeof(float));
  if (!scratch.ok()) return absl::OkStatus();  // not a reason to fail
  float best = 0;
  for (int i = 0; i < found; ++i) {
    if (candidates[i].state != CUBLAS_STATUS_SUCCESS) continue;
    OCTAVO_ASSIGN_OR_RETURN(const float time,
                            Time(args, plan, candidates[i].algo, scratch->as<float>(), stream));
    // Noise must not choose: sums have another order with another algorithm.
    if (i > 0 && time > best * 0.95f) continue;
    best = time;
    plan.algorithm = candidates[i].algo;
  }
  return absl::OkStatus();
}

}  // namespace octavo::cuda
