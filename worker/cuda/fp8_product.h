// y = x W^T of e4m3 codes with a scale for each row of x and each row of W.
#ifndef OCTAVO_WORKER_CUDA_FP8_PRODUCT_H_
#define OCTAVO_WORKER_CUDA_FP8_PRODUCT_H_

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>

#include "absl/status/status.h"
#include "worker/backend/buffer.h"
#include "worker/cuda/gemm.h"

namespace octavo::cuda {

// cuBLASLt multiplies with vectors of scales on compute capability 9.0 only, where the product is
// one call. Elsewhere, and for shapes for which it declines, sums of the plain codes are scaled by
// a kernel behind the product: in place, or, where the result is added to what is there, from a
// scratch matrix of kScratchRows rows at a time. Owned and called by the thread that owns the
// stream.
class Fp8Product {
 public:
  // The tensor cores multiply e4m3 from this compute capability on, as 10 major + minor.
  static constexpr int32_t kLeastCapability = 89;
  static constexpr int64_t kScratchRows = 1024;

  // REQUIRES: `gemm` outlives it.
  Fp8Product(Gemm& gemm, int32_t capability)
      : gemm_(gemm), scales_inside_{capability == 90, capability == 90} {}

  // What sums of `rows` x `cols` that are added to something take, and taking it.
  static int64_t ScratchBytes(int64_t rows, int64_t cols);
  absl::Status Reserve(int64_t rows, int64_t cols);

  // As Gemm::Run with e4m3 and both scales; with a bias too.
  absl::Status Run(const GemmArgs& args, cudaStream_t stream);

 private:
  absl::Status RunAndScale(const GemmArgs& args, cudaStream_t stream);

  Gemm& gemm_;
  std::array<bool, 2> scales_inside_;  // of products that store, that add
  Buffer scratch_;
};

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_FP8_PRODUCT_H_
