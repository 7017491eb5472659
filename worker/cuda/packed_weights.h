// Weights on the device as the products read them: bf16, [out][in], rows padded to 16 bytes; or 4
// and 8 bits with scales, as kernels/quant_layout.h has it.
#ifndef OCTAVO_WORKER_CUDA_PACKED_WEIGHTS_H_
#define OCTAVO_WORKER_CUDA_PACKED_WEIGHTS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/backend/backend.h"
#include "worker/backend/buffer.h"
#include "worker/backend/tensor_view.h"
#include "worker/cuda/kernels/quant_layout.h"
#include "worker/cuda/staging.h"

namespace octavo::cuda {

// Row stride, in elements, of bf16 rows that enter or are a factor of a product: cuBLASLt's fast
// kernels want rows that begin at multiples of 16 bytes. The padding is zero.
constexpr int64_t PaddedCols(int64_t cols) { return (cols + 7) / 8 * 8; }

// A matrix on the device; the embedding and a tied output head share one.
struct DeviceMatrix {
  Buffer bf16;  // [rows, stride]
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;
};

// A matrix of 4 or 8 bits on the device.
struct QuantMatrix {
  Buffer units;
  QuantFormat format;
  int64_t rows = 0;
  int64_t cols = 0;
};

class CudaLinear : public LinearWeight {
 public:
  CudaLinear(std::shared_ptr<const DeviceMatrix> matrix, Buffer bias, bool gated)
      : matrix_(std::move(matrix)), bias_(std::move(bias)), gated_(gated) {}
  CudaLinear(QuantMatrix quantized, Buffer bias, bool gated)
      : quantized_(std::move(quantized)), bias_(std::move(bias)), gated_(gated) {}

  int64_t in_features() const override { return matrix_ ? matrix_->cols : quantized_.cols; }
  int64_t out_features() const override { return matrix_ ? matrix_->rows : quantized_.rows; }
  int64_t bytes() const override {
    return static_cast<int64_t>(matrix_ ? matrix_->bf16.bytes() : quantized_.units.bytes());
  }

  // One of them is there.
  const uint16_t* data() const { return matrix_ ? matrix_->bf16.as<uint16_t>() : nullptr; }
  const QuantMatrix* quantized() const { return matrix_ ? nullptr : &quantized_; }
  int64_t stride() const { return PaddedCols(in_features()); }  // of rows in bf16
  const float* bias() const { return bias_.as<float>(); }       // [out_features]; nullptr: none
  bool gated() const { return gated_; }                         // rows {gate, up}

 private:
  std::shared_ptr<const DeviceMatrix> matrix_;
  QuantMatrix quantized_;  // without matrix_
  Buffer bias_;
  bool gated_;
};

class CudaEmbedding : public EmbeddingWeight {
 public:
  explicit CudaEmbedding(std::shared_ptr<const DeviceMatrix> matrix) : matrix_(std::move(matrix)) {}

  int64_t rows() const override { return matrix_->rows; }
  int64_t cols() const override { return matrix_->cols; }
  const uint16_t* data() const { return matrix_->bf16.as<uint16_t>(); }
  int64_t stride() const { return matrix_->stride; }

 private:
  std::shared_ptr<const DeviceMatrix> matrix_;
};

// Packs checkpoints. Every storage type of a weight goes through the plain dequantisation and is
// rounded to the nearest bf16, ties to even, so bf16 checkpoints keep their bits; those of linear
// layers in 4 or 8 bits stay so where that is wanted and QuantFormatOf has a format. Owned and
// called by the device thread.
class WeightPacker {
 public:
  // REQUIRES: `staging` outlives it.
  WeightPacker(Staging& staging, bool keep_quantized)
      : staging_(staging), keep_quantized_(keep_quantized) {}

  // INVALID_ARGUMENT naming the tensor for shapes that contradict each other, no data, or a dtype
  // that stores no weights; RESOURCE_EXHAUSTED naming it when it does not fit.
  absl::StatusOr<std::unique_ptr<CudaLinear>> Linear(const LinearSource& source);
  absl::StatusOr<std::unique_ptr<CudaEmbedding>> Embedding(const WeightView& source);

 private:
  absl::StatusOr<std::shared_ptr<const DeviceMatrix>> Pack(const LinearSource& source);
  absl::Status Upload(const WeightView& part, DeviceMatrix& matrix, int64_t first_row);
  absl::StatusOr<QuantMatrix> PackQuantized(const LinearSource& source, QuantFormat format);

  Staging& staging_;
  const bool keep_quantized_;
  // Of layers made of one stored matrix, by where that is: tied weights are packed once.
  std::map<const std::byte*, std::weak_ptr<const DeviceMatrix>> packed_;
};

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_PACKED_WEIGHTS_H_
