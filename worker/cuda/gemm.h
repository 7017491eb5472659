// y = x W^T of bf16, fp16 or e4m3 rows with fp32 sums and an fp32 result, by cuBLASLt.
#ifndef OCTAVO_WORKER_CUDA_GEMM_H_
#define OCTAVO_WORKER_CUDA_GEMM_H_

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <compare>
#include <cstdint>
#include <map>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/dtype.h"
#include "worker/backend/buffer.h"

namespace octavo::cuda {

struct GemmArgs {
  const void* x = nullptr;       // of `type`, [rows, in_features]
  int64_t x_stride = 0;          // in elements, like all strides
  const void* weight = nullptr;  // of `type`, [out_features, in_features]
  int64_t weight_stride = 0;
  const float* bias = nullptr;  // [out_features] or nullptr
  float* out = nullptr;         // [rows, out_features]
  int64_t out_stride = 0;
  int64_t rows = 0;
  int64_t in_features = 0;
  int64_t out_features = 0;
  bool add = false;           // out += instead of out =
  DType type = DType::kBF16;  // or kF16, kF8E4M3
  // Of e4m3: what the sums are multiplied with, inside the product. Both or none.
  const float* x_scales = nullptr;       // [rows]
  const float* weight_scales = nullptr;  // [out_features]
};

// The algorithm of each shape is asked for once. Which one that is depends on the row count, so the
// order of sums does too: unlike on the CPU backend, a row's bits depend on how many rows there
// are. For up to kMaxTimedRows rows, where cuBLASLt's guess is the weakest, its best kCandidates
// are timed once, outside of recordings and where memory for their results is free; the first one
// stays unless another is clearly faster.
// Owned and called by the thread that owns the stream.
class Gemm {
 public:
  static constexpr int kCandidates = 8;
  static constexpr int64_t kMaxTimedRows = 64;
  // Split sums of products with few rows are kept here; 32 MiB is what NVIDIA advises for Hopper.
  static constexpr size_t kWorkspaceBytes = size_t{32} << 20;
  // Products of 8 bits want 16-byte rows in both operands ("Tensor Core Usage" of cuBLAS's manual).
  static constexpr int64_t kE4m3Multiple = 16;

  static absl::StatusOr<std::unique_ptr<Gemm>> Create();
  ~Gemm();
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;

  // INVALID_ARGUMENT when shapes and strides contradict each other, and for e4m3 where features or
  // strides are not multiples of kE4m3Multiple, addresses not of 16 bytes, or there is a bias,
  // which cuBLASLt would read as bf16; UNIMPLEMENTED, with the shape, when cuBLASLt has no
  // algorithm.
  absl::Status Run(const GemmArgs& args, cudaStream_t stream);

  size_t num_cached() const { return plans_.size(); }

 private:
  // What the choice of an algorithm depends on.
  struct Shape {
    int64_t rows, in_features, out_features, x_stride, weight_stride, out_stride;
    uint32_t x_alignment, weight_alignment, out_alignment;  // of the addresses, in bytes
    bool add, bias, scaled;
    DType type;
    auto operator<=>(const Shape&) const = default;
  };
  // cuBLAS counts columns first: its A is W transposed, its B is x, its D is out.
  struct Plan {
    Plan() = default;
    ~Plan();
    Plan(const Plan&) = delete;
    Plan& operator=(const Plan&) = delete;

    cublasLtMatmulDesc_t product = nullptr;
    cublasLtMatrixLayout_t weight = nullptr;
    cublasLtMatrixLayout_t x = nullptr;
    cublasLtMatrixLayout_t out = nullptr;
    cublasLtMatmulAlgo_t algorithm = {};
  };

  Gemm() = default;
  absl::StatusOr<std::unique_ptr<Plan>> MakePlan(const Shape& shape, const GemmArgs& args,
                                                 cudaStream_t stream);
  absl::Status ChooseAlgorithm(const Shape& shape, const GemmArgs& args, cudaStream_t stream,
                               Plan& plan);
  // Milliseconds of one product into `scratch`.
  absl::StatusOr<float> Time(const GemmArgs& args, const Plan& plan,
                             const cublasLtMatmulAlgo_t& algorithm, float* scratch,
                             cudaStream_t stream);
  absl::Status Multiply(const GemmArgs& args, const Plan& plan,
                        const cublasLtMatmulAlgo_t& algorithm, float* out, cudaStream_t stream);

  cublasLtHandle_t handle_ = nullptr;
  Buffer workspace_;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
  std::map<Shape, std::unique_ptr<Plan>> plans_;
};

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_GEMM_H_
