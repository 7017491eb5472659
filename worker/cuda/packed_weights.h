// Weights on the device as the products read them: bf16, fp16 or e4m3, [out][in], rows padded to 16
// bytes; or 4 and 8 bits with scales, as kernels/quant_layout.h has it.
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

// Row stride, in elements, of 16-bit rows that enter or are a factor of a product: cuBLASLt's fast
// kernels want rows that begin at multiples of 16 bytes. The padding is zero.
constexpr int64_t PaddedCols(int64_t cols) { return (cols + 7) / 8 * 8; }

// A matrix on the device; the embedding and a tied output head share one.
struct DeviceMatrix {
  Buffer data;                // [rows, stride]
  DType type = DType::kBF16;  // or kF16, kF8E4M3
  Buffer scales;              // [rows], fp32, of e4m3: what its codes are multiplied with
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
    return static_cast<int64_t>(matrix_ ? matrix_->data.bytes() + matrix_->scales.bytes()
                                        : quantized_.units.bytes());
  }

  // One of them is there.
  const std::byte* data() const { return matrix_ ? matrix_->data.data() : nullptr; }
  const QuantMatrix* quantized() const { return matrix_ ? nullptr : &quantized_; }
  // Of the rows that are multiplied with it, and of its own in data().
  DType type() const { return matrix_ ? matrix_->type : DType::kBF16; }
  int64_t stride() const { return PaddedCols(in_features()); }
  const float* scales() const { return matrix_ ? matrix_->scales.as<float>() : nullptr; }
  const float* bias() const { return bias_.as<float>(); }  // [out_features]; nullptr: none
  bool gated() const { return gated_; }                    // rows {gate, up}

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
  const uint16_t* data() const { return matrix_->data.as<uint16_t>(); }
  DType type() const { return matrix_->type; }  // kBF16 or kF16
  int64_t stride() const { return matrix_->stride; }

 private:
  std::shared_ptr<const DeviceMatrix> matrix_;
};

// What weights become on the device.
struct WeightFormats {
  DType type = DType::kBF16;    // or kF16: of all that nothing below applies to
  bool keep_quantized = false;  // 4 and 8 bits stay so where QuantFormatOf has a format
  bool fp8 = false;  // linear layers are e4m3, but for the output head and where FitsFp8 says no
};

// Whether products of e4m3 take such a layer, and rows of it go through the staging ring.
bool FitsFp8(int64_t rows, int64_t cols);

// Packs checkpoints. Every storage type of a weight goes through the plain dequantisation and is
// rounded to the nearest, ties to even, so checkpoints of the same type keep their bits. A row of
// e4m3 has a scale, its largest magnitude over 448. Owned and called by the device thread.
class WeightPacker {
 public:
  // REQUIRES: `staging` outlives it.
  WeightPacker(Staging& staging, const WeightFormats& formats)
      : staging_(staging), formats_(formats) {}

  // INVALID_ARGUMENT naming the tensor for shapes that contradict each other, no data, a dtype
  // that stores no weights, or numbers beyond fp16 where it must become that; RESOURCE_EXHAUSTED
  // naming it when it does not fit.
  absl::StatusOr<std::unique_ptr<CudaLinear>> Linear(const LinearSource& source);
  absl::StatusOr<std::unique_ptr<CudaEmbedding>> Embedding(const WeightView& source);

 private:
  absl::StatusOr<std::shared_ptr<const DeviceMatrix>> Pack(const LinearSource& source, DType type);
  // Rows that the host brings into their final form: bf16, and any type that is stored so.
  absl::Status Upload(const WeightView& part, DeviceMatrix& matrix, int64_t first_row);
  // Rows that the device rounds.
  absl::Status UploadAndRound(const WeightView& part, DeviceMatrix& matrix, int64_t first_row);
  absl::StatusOr<QuantMatrix> PackQuantized(const LinearSource& source, QuantFormat format);

  Staging& staging_;
  const WeightFormats formats_;
  Buffer floats_;             // one slot of the ring, on the device
  bool told_of_fp8_ = false;  // that a layer does not fit it
  // Of layers made of one stored matrix, by where that is: tied weights are packed once.
  std::map<const std::byte*, std::weak_ptr<const DeviceMatrix>> packed_;
};

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_PACKED_WEIGHTS_H_
