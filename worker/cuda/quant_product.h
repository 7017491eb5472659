// y = x W^T for weights of 4 and 8 bits: few rows by the fused kernel, many through bf16.
#ifndef OCTAVO_WORKER_CUDA_QUANT_PRODUCT_H_
#define OCTAVO_WORKER_CUDA_QUANT_PRODUCT_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/backend/buffer.h"
#include "worker/cuda/gemm.h"
#include "worker/cuda/kernels/quant_gemm.h"

namespace octavo::cuda {

// Up to kMaxQuantRows rows of x read the weights as they are stored. For more, pieces of the
// weights are dequantised into a scratch matrix, and multiplied by cuBLASLt; docs/cuda.md has the
// arithmetic. Owned and called by the thread that owns the stream.
class QuantProduct {
 public:
  // Of the rows of a weight that are dequantised at once: at 14,336 columns still 2,336 rows, whose
  // products fill a card, and about the second-level cache of an H100 (50 MB).
  static constexpr int64_t kScratchBytes = int64_t{64} << 20;

  // Clears the workspace on `stream`. REQUIRES: `gemm` outlives it.
  static absl::StatusOr<std::unique_ptr<QuantProduct>> Create(
      Gemm& gemm, int32_t multiprocessors, cudaStream_t stream,
      int64_t scratch_bytes = kScratchBytes);

  // As Gemm::Run; `args.weight` is not read, its stride is that of the scratch matrix.
  absl::Status Run(const GemmArgs& args, const std::byte* weight, QuantFormat format,
                   cudaStream_t stream);

 private:
  QuantProduct(Gemm& gemm, int32_t multiprocessors, int64_t scratch_bytes)
      : gemm_(gemm), multiprocessors_(multiprocessors), scratch_bytes_(scratch_bytes) {}
  absl::Status RunDequantized(const GemmArgs& args, const std::byte* weight, QuantFormat format,
                              cudaStream_t stream);

  Gemm& gemm_;
  const int32_t multiprocessors_;
  const int64_t scratch_bytes_;
  Buffer partials_;
  Buffer arrivals_;
  Buffer scratch_;  // bf16
};

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_QUANT_PRODUCT_H_
