// The CUDA device: one card, products by cuBLASLt, own paged kernels.
#ifndef OCTAVO_WORKER_CUDA_CUDA_BACKEND_H_
#define OCTAVO_WORKER_CUDA_CUDA_BACKEND_H_

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/executor.h"
#include "worker/backend/backend.h"
#include "worker/cuda/cuda_attention.h"
#include "worker/cuda/cuda_sampler.h"
#include "worker/cuda/fp8_product.h"
#include "worker/cuda/gemm.h"
#include "worker/cuda/graph_cache.h"
#include "worker/cuda/packed_weights.h"
#include "worker/cuda/quant_product.h"
#include "worker/cuda/staging.h"

namespace octavo::cuda {

struct CudaBackendOptions {
  int32_t device = 0;
  bool graphs = true;          // record and replay the steps that only decode
  bool deterministic = false;  // attention of a row does not depend on its batch
  // What enters products and what weights become: bf16 or fp16, unless one of these applies.
  DType dtype = DType::kBF16;
  bool quantized_weights = false;  // those stored in 4 or 8 bits stay so; with kBF16 only
  bool fp8_weights = false;        // linear layers multiply e4m3 (WeightFormats); needs sm_89
};

// A CUDA stream, destroyed with its owner.
class OwnedStream {
 public:
  OwnedStream() = default;
  ~OwnedStream() {
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }
  OwnedStream(const OwnedStream&) = delete;
  OwnedStream& operator=(const OwnedStream&) = delete;
  absl::Status Create();
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

// A CUDA event without a time, destroyed with its owner.
class OwnedEvent {
 public:
  OwnedEvent() = default;
  ~OwnedEvent() {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }
  OwnedEvent(const OwnedEvent&) = delete;
  OwnedEvent& operator=(const OwnedEvent&) = delete;
  absl::Status Create();
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

// All ops go to one stream in the order of their calls. Copies to the device leave through pinned
// staging on the same stream; swaps have a stream of their own and are complete when they return,
// so neither needs the other's events (swap.1, step.4). Outlives its weights and buffers' use.
class CudaBackend : public Backend {
 public:
  // FAILED_PRECONDITION when there is no such card or driver, or the card lacks what `options` ask
  // for; INVALID_ARGUMENT when those contradict each other.
  static absl::StatusOr<std::unique_ptr<CudaBackend>> Create(const CudaBackendOptions& options);
  ~CudaBackend() override;

  std::string device_name() const override { return name_; }
  std::string numeric_path() const override {
    std::string path = formats_.type == DType::kF16 ? "cuda/fp16" : "cuda/bf16";
    if (formats_.keep_quantized) path += "/stored";
    if (formats_.fp8) path += "/fp8";
    if (deterministic_) path += "/deterministic";
    return path;
  }
  absl::StatusOr<DeviceMemory> Memory() const override;
  void WatchPeak() override;
  // With as many graphs as are kept at most, each as large as the largest so far.
  absl::StatusOr<DevicePeak> Peak() const override;

  // Not cleared.
  absl::StatusOr<Buffer> Allocate(size_t bytes) override;
  absl::Status CopyToDevice(void* device, const void* host, size_t bytes) override;
  absl::Status CopyToHost(void* host, const void* device, size_t bytes) override;
  // Pinned, and so resident at once.
  absl::StatusOr<Buffer> AllocateHost(size_t bytes) override;
  absl::Status SwapOut(void* host, const void* device, size_t bytes) override;
  absl::Status SwapIn(void* device, const void* host, size_t bytes) override;

  absl::StatusOr<int64_t> WorkspaceBytes(const LargestStep& limits) const override;
  absl::Status Reserve(const LargestStep& limits) override;
  absl::StatusOr<bool> BeginStep(const StepBatch& batch,
                                 const std::vector<int32_t>& row_ids) override;
  absl::Status EndStep() override;

  absl::StatusOr<std::unique_ptr<LinearWeight>> PackLinear(const LinearSource& source) override;
  absl::StatusOr<std::unique_ptr<EmbeddingWeight>> PackEmbedding(const WeightView& source) override;

  absl::Status Embed(const EmbedParams& params) override;
  absl::Status Linear(const LinearParams& params) override;
  // The gate goes to the second product as that reads it and never to params.gated.
  absl::Status FeedForward(const FeedForwardParams& params) override;
  absl::Status AddNormed(const AddNormedParams& params) override;
  absl::Status Softcap(const SoftcapParams& params) override;
  absl::Status RopeAndWriteKv(const RopeAndWriteKvParams& params) override;
  absl::Status PagedAttention(const PagedAttentionParams& params) override;
  absl::Status CopyBlocks(const CopyBlocksParams& params) override;
  absl::Status Sample(const SampleParams& params) override;
  bool runs_ahead() const override { return true; }
  absl::Status SubmitStep() override;
  absl::StatusOr<bool> StepDone() override;
  absl::Status FinishStep() override;
  absl::Status Synchronize() override;

  // Where all ops go, for what else takes its place among them.
  cudaStream_t compute_stream() const { return compute_.get(); }
  // Steps that ran from a recording so far.
  int64_t num_replayed_steps() const { return graphs_->num_replays(); }

 private:
  // Rows of {gate, up} that are kept at once, so that their memory does not grow with the step.
  static constexpr int64_t kGatedRows = 1024;

  explicit CudaBackend(const CudaBackendOptions& options)
      : device_(options.device),
        use_graphs_(options.graphs),
        deterministic_(options.deterministic),
        formats_{options.dtype, options.quantized_weights, options.fp8_weights} {}
  absl::Status Open();
  // Makes the card the calling thread's.
  absl::Status UseDevice() const;
  // The device copy of rows that a product gathers.
  absl::StatusOr<const int32_t*> RowIds(const int32_t* host, int64_t count, int64_t rows);

  // The rows that enter a product.
  struct Input {
    Matrix x;
    RmsNorm norm;
    const int32_t* row_ids = nullptr;  // device
    DType type = DType::kBF16;         // of their copies in rows_, and their stride
    int64_t stride = 0;
    bool ready = false;  // AddNormed has left them there
  };
  // Rows as a product reads them: of the weight's type() and stride().
  struct RoundedRows {
    const std::byte* data = nullptr;
    const float* scales = nullptr;  // of e4m3
  };
  // Makes room for them.
  absl::StatusOr<Input> InputOf(const CudaLinear& weight, const LinearParams& params);
  // Rows [first, first + rows) of the input, normed and rounded, in their place in rows_.
  absl::StatusOr<RoundedRows> RoundRows(const Input& input, int64_t first, int64_t rows);
  // out (+)= x W^T + b.
  absl::Status Multiply(const CudaLinear& weight, const RoundedRows& x, const Matrix& out,
                        bool add);
  // Calls `use` with {gate, up} of the input's rows from `first` on, kGatedRows at a time.
  absl::Status ForGatedRows(
      const CudaLinear& weight, const Input& input, int64_t rows,
      absl::FunctionRef<absl::Status(int64_t first, const Matrix& gate_up)> use);

  const int32_t device_;
  const bool use_graphs_;
  const bool deterministic_;
  const WeightFormats formats_;
  int32_t multiprocessors_ = 0;
  int32_t capability_ = 0;  // 10 major + minor
  std::string name_;
  OwnedStream compute_;
  OwnedStream swap_;
  std::array<OwnedEvent, kMaxStepsInFlight> step_ends_;  // at [step % size]
  uint64_t submitted_ = 0;                               // steps
  uint64_t finished_ = 0;
  bool sampling_ = false;                             // the step that is being launched samples
  std::array<bool, kMaxStepsInFlight> sampled_ = {};  // of submitted steps
  std::unique_ptr<Staging> staging_;
  std::unique_ptr<WeightPacker> packer_;
  std::unique_ptr<Gemm> gemm_;
  std::unique_ptr<QuantProduct> quant_product_;  // once a weight needs it
  std::unique_ptr<Fp8Product> fp8_product_;      // likewise
  std::unique_ptr<CudaAttention> attention_;
  CudaSampler sampler_;
  std::unique_ptr<GraphCache> graphs_;

  int64_t widest_input_ = 0;  // of the weights packed, padded
  int64_t widest_gated_ = 0;  // rows of a gated weight
  int64_t reserved_bytes_ = 0;
  int64_t widest_fp8_ = 0;  // rows of a weight of e4m3 without a gate
  // What layers of so many columns multiply with, or nothing where they differ.
  std::map<int64_t, std::optional<DType>> input_types_;
  Buffer rows_;          // of 16 bits, [max_rows, widest_input_]: what enters a product
  Buffer row_scales_;    // [max_rows], of rows of e4m3
  Buffer gate_up_;       // [kGatedRows, widest_gated_]
  Buffer gated_rows_;    // of 16 bits, [kGatedRows, widest_gated_ / 2, padded]
  Buffer gated_scales_;  // [kGatedRows]
  // What AddNormed has left in rows_: these rows under this norm.
  struct NormedRows {
    Matrix rows;
    RmsNorm norm;
    DType type = DType::kBF16;
  };
  NormedRows normed_;
  Buffer copies_;   // BlockCopy, [*]
  Buffer row_ids_;  // of the step
  Buffer other_row_ids_;
  const int32_t* step_row_ids_ = nullptr;  // host; what row_ids_ holds
  size_t num_step_row_ids_ = 0;
};

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_CUDA_BACKEND_H_
