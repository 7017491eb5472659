#include "worker/cuda/cuda_backend.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "common/status_naming.h"
#include "worker/cuda/cuda_status.h"
#include "worker/cuda/device_memory.h"

namespace octavo::cuda {
namespace {

absl::StatusOr<int32_t> Attribute(cudaDeviceAttr attribute, int32_t device) {
  int value = 0;
  OCTAVO_RETURN_IF_ERROR(ToStatus(
      cudaDeviceGetAttribute(&value, attribute, device),
      absl::StrCat("attribute ", static_cast<int>(attribute), " of CUDA device ", device)));
  return value;
}

}  // namespace

absl::Status OwnedStream::Create() {
  return ToStatus(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
                  "cudaStreamCreateWithFlags");
}

absl::Status OwnedEvent::Create() {
  return ToStatus(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming),
                  "cudaEventCreateWithFlags");
}

absl::StatusOr<std::unique_ptr<CudaBackend>> CudaBackend::Create(
    const CudaBackendOptions& options) {
  int count = 0;
  OCTAVO_RETURN_IF_ERROR(ToStatus(cudaGetDeviceCount(&count), "cudaGetDeviceCount"));
  if (options.device < 0 || options.device >= count)
    return absl::FailedPreconditionError(absl::StrCat("--device is ", options.device,
                                                      "; this process sees ", count, " CUDA ",
                                                      count == 1 ? "device" : "devices"));
  if (options.dtype != DType::kBF16 && options.dtype != DType::kF16)
    return absl::InvalidArgumentError(absl::StrCat("the cuda backend has no products of ",
                                                   std::string(Info(options.dtype).name),
                                                   "; it computes in bf16 or fp16"));
  if (options.quantized_weights && (options.fp8_weights || options.dtype != DType::kBF16))
    return absl::InvalidArgumentError(
        "weights of 4 and 8 bits are multiplied with rows of bf16, neither of fp16 nor of fp8");
  auto backend = absl::WrapUnique(new CudaBackend(options));
  OCTAVO_RETURN_IF_ERROR(backend->Open());
  return backend;
}

absl::Status CudaBackend::Open() {
  OCTAVO_RETURN_IF_ERROR(UseDevice());
  OCTAVO_ASSIGN_OR_RETURN(const int32_t major,
                          Attribute(cudaDevAttrComputeCapabilityMajor, device_));
  OCTAVO_ASSIGN_OR_RETURN(const int32_t minor,
                          Attribute(cudaDevAttrComputeCapabilityMinor, device_));
  // Asynchronous copies to shared memory and bf16 on the tensor cores.
  if (major < 8)
    return absl::FailedPreconditionError(absl::StrCat("CUDA device ", device_,
                                                      " has compute capability ", major, ".", minor,
                                                      "; the kernels need 8.0"));
  capability_ = 10 * major + minor;
  if (formats_.fp8 && capability_ < Fp8Product::kLeastCapability)
    return absl::FailedPreconditionError(
        absl::StrCat("CUDA device ", device_, " has compute capability ", major, ".", minor,
                     "; products of fp8 need ", Fp8Product::kLeastCapability / 10, ".",
                     Fp8Product::kLeastCapability % 10));
  OCTAVO_ASSIGN_OR_RETURN(multiprocessors_, Attribute(cudaDevAttrMultiProcessorCount, device_));
  OCTAVO_ASSIGN_OR_RETURN(const int32_t shared_bytes,
                          Attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor, device_));
  name_ = absl::StrCat("cuda:", device_, " sm_", major, minor);
  OCTAVO_RETURN_IF_ERROR(compute_.Create());
  OCTAVO_RETURN_IF_ERROR(swap_.Create());
  OCTAVO_ASSIGN_OR_RETURN(staging_, Staging::Create(compute_.get()));
  packer_ = std::make_unique<WeightPacker>(*staging_, formats_);
  OCTAVO_ASSIGN_OR_RETURN(gemm_, Gemm::Create());
  attention_ = std::make_unique<CudaAttention>(multiprocessors_, shared_bytes, deterministic_);
  for (OwnedEvent& end : step_ends_) OCTAVO_RETURN_IF_ERROR(end.Create());
  graphs_ = std::make_unique<GraphCache>(compute_.get());
  return absl::OkStatus();
}

CudaBackend::~CudaBackend() {
  for (const OwnedStream* stream : {&compute_, &swap_}) {
    if (stream->get() == nullptr) continue;
    const absl::Status status =
        ToStatus(cudaStreamSynchronize(stream->get()), "cudaStreamSynchronize");
    if (!status.ok()) OCTAVO_LOG(kWarning, "closing ", name_, ": ", status.message());
  }
}

absl::Status CudaBackend::UseDevice() const {
  thread_local int32_t used = -1;
  if (used == device_) return absl::OkStatus();
  OCTAVO_RETURN_IF_ERROR(ToStatus(cudaSetDevice(device_), "cudaSetDevice"));
  used = device_;
  return absl::OkStatus();
}

absl::StatusOr<DeviceMemory> CudaBackend::Memory() const {
  OCTAVO_RETURN_IF_ERROR(UseDevice());
  OCTAVO_ASSIGN_OR_RETURN(DeviceMemory memory, ReadDeviceMemory());
  memory.free_bytes = std::min(memory.free_bytes + reserved_bytes_, memory.total_bytes);
  return memory;
}

void CudaBackend::WatchPeak() { RestartDeviceHeapPeak(); }

absl::StatusOr<DevicePeak> CudaBackend::Peak() const {
  OCTAVO_RETURN_IF_ERROR(UseDevice());
  OCTAVO_ASSIGN_OR_RETURN(const DeviceMemory memory, ReadDeviceMemory());
  DevicePeak peak;
  peak.used_bytes = memory.total_bytes - memory.free_bytes + DeviceHeapBytesAboveNow();
  const auto more = static_cast<int64_t>(GraphCache::kMaxGraphs - graphs_->num_graphs());
  peak.used_bytes += more * graphs_->bytes_per_graph();
  peak.graph_bytes = static_cast<int64_t>(GraphCache::kMaxGraphs) * graphs_->bytes_per_graph();
  return peak;
}

absl::StatusOr<Buffer> CudaBackend::Allocate(size_t bytes) {
  OCTAVO_RETURN_IF_ERROR(UseDevice());
  return AllocateDevice(bytes);
}

absl::Status CudaBackend::CopyToDevice(void* device, const void* host, size_t bytes) {
  OCTAVO_RETURN_IF_ERROR(UseDevice());
  return staging_->Copy(device, host, bytes);
}

absl::Status CudaBackend::CopyToHost(void* host, const void* device, size_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  OCTAVO_RETURN_IF_ERROR(UseDevice());
  OCTAVO_RETURN_IF_ERROR(
      ToStatus(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, compute_.get()),
               "cudaMemcpyAsync to the host"));
  return ToStatus(cudaStreamSynchronize(compute_.get()), "cudaStreamSynchronize");
}

absl::StatusOr<Buffer> CudaBackend::AllocateHost(size_t bytes) {
  OCTAVO_RETURN_IF_ERROR(UseDevice());
  return AllocatePinned(bytes);
}

absl::Status CudaBackend::SwapOut(void* host, const void* device, size_t bytes) {
  OCTAVO_RETURN_IF_ERROR(UseDevice());
  OCTAVO_RETURN_IF_ERROR(
      ToStatus(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, swap_.get()),
               "cudaMemcpyAsync of a block to the host"));
  return ToStatus(cudaStreamSynchronize(swap_.get()), "cudaStreamSynchronize of swaps");
}

absl::Status CudaBackend::SwapIn(void* device, const void* host, size_t bytes) {
  OCTAVO_RETURN_IF_ERROR(UseDevice());
  OCTAVO_RETURN_IF_ERROR(
      ToStatus(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, swap_.get()),
               "cudaMemcpyAsync of a block to the device"));
  return ToStatus(cudaStreamSynchronize(swap_.get()), "cudaStreamSynchronize of swaps");
}

absl::StatusOr<std::unique_ptr<LinearWeight>> CudaBackend::PackLinear(const LinearSource& source) {
  OCTAVO_RETURN_IF_ERROR(UseDevice());
  OCTAVO_ASSIGN_OR_RETURN(std::unique_ptr<CudaLinear> weight, packer_->Linear(source));
  widest_input_ = std::max(widest_input_, weight->stride());
  if (weight->quantized() != nullptr && quant_product_ == nullptr) {
    OCTAVO_ASSIGN_OR_RETURN(quant_product_,
                            QuantProduct::Create(*gemm_, multiprocessors_, compute_.get()));
  }
  if (weight->type() == DType::kF8E4M3) {
    if (fp8_product_ == nullptr) fp8_product_ = std::make_unique<Fp8Product>(*gemm_, capability_);
    if (!weight->gated()) widest_fp8_ = std::max(widest_fp8_, weight->out_features());
  }
  // The head's rows are gathered, so that nothing norms them ahead.
  if (!source.head) {
    const auto [type, first] = input_types_.try_emplace(weight->in_features(), weight->type());
    if (!first && type->second != weight->type()) type->second = std::nullopt;
  }
  if (weight->gated()) widest_gated_ = std::max(widest_gated_, weight->out_features());
  return weight;
}

absl::StatusOr<std::unique_ptr<EmbeddingWeight>> CudaBackend::PackEmbedding(
    const WeightView& source) {
  OCTAVO_RETURN_IF_ERROR(UseDevice());
  OCTAVO_ASSIGN_OR_RETURN(std::unique_ptr<CudaEmbedding> weight, packer_->Embedding(source));
  return weight;
}

absl::StatusOr<int64_t> CudaBackend::WorkspaceBytes(const LargestStep& limits) const {
  OCTAVO_ASSIGN_OR_RETURN(const int64_t attention, attention_->WorkspaceBytes(limits));
  const int64_t gated_rows = std::min<int64_t>(limits.max_rows, kGatedRows);
  return attention + sampler_.WorkspaceBytes(limits) +
         limits.max_rows * widest_input_ * int64_t{sizeof(uint16_t)} +
         gated_rows * (widest_gated_ * int64_t{sizeof(float)} +
                       PaddedCols(widest_gated_ / 2) * int64_t{sizeof(uint16_t)}) +
         (limits.max_rows + gated_rows) * int64_t{sizeof(float)} +
         Fp8Product::ScratchBytes(limits.max_rows, widest_fp8_) +
         2 * limits.max_rows * int64_t{sizeof(int32_t)};
}

absl::Status CudaBackend::Reserve(const LargestStep& limits) {
  OCTAVO_RETURN_IF_ERROR(UseDevice());
  reserved_bytes_ = 0;
  graphs_->Clear();
  OCTAVO_ASSIGN_OR_RETURN(const int64_t bytes, WorkspaceBytes(limits));
  OCTAVO_RETURN_IF_ERROR(attention_->Reserve(limits, compute_.get()));
  OCTAVO_RETURN_IF_ERROR(Naming("memory of sampling", sampler_.Reserve(limits)));
  const auto rows = static_cast<size_t>(limits.max_rows);
  const auto gated_rows = static_cast<size_t>(std::min<int64_t>(limits.max_rows, kGatedRows));
  OCTAVO_RETURN_IF_ERROR(
      Naming("rows that enter products",
             Grow(rows_, rows * static_cast<size_t>(widest_input_) * sizeof(uint16_t))));
  OCTAVO_RETURN_IF_ERROR(
      Naming("gates of feed-forward layers",
             Grow(gate_up_, gated_rows * static_cast<size_t>(widest_gated_) * sizeof(float))));
  OCTAVO_RETURN_IF_ERROR(Naming(
      "rows of feed-forward layers",
      Grow(gated_rows_,
           gated_rows * static_cast<size_t>(PaddedCols(widest_gated_ / 2)) * sizeof(uint16_t))));
  OCTAVO_RETURN_IF_ERROR(Naming("scales of rows", Grow(row_scales_, rows * sizeof(float))));
  OCTAVO_RETURN_IF_ERROR(Naming("scales of rows", Grow(gated_scales_, gated_rows * sizeof(float))));
  if (fp8_product_ != nullptr)
    OCTAVO_RETURN_IF_ERROR(
        Naming("buffers of fp8 products", fp8_product_->Reserve(limits.max_rows, widest_fp8_)));
  OCTAVO_RETURN_IF_ERROR(Grow(row_ids_, rows * sizeof(int32_t)));
  OCTAVO_RETURN_IF_ERROR(Grow(other_row_ids_, rows * sizeof(int32_t)));
  reserved_bytes_ = bytes;
  return absl::OkStatus();
}

absl::StatusOr<bool> CudaBackend::BeginStep(const StepBatch& batch,
                                            const std::vector<int32_t>& row_ids) {
  OCTAVO_RETURN_IF_ERROR(UseDevice());
  graphs_->Abandon();
  normed_ = {};
  OCTAVO_RETURN_IF_ERROR(attention_->BeginStep(batch, *staging_));
  const size_t bytes = row_ids.size() * sizeof(int32_t);
  if (bytes > row_ids_.bytes())
    return absl::InvalidArgumentError(absl::StrCat("a step of ", row_ids.size(),
                                                   " sampled rows; reserved were ",
                                                   row_ids_.bytes() / sizeof(int32_t)));
  OCTAVO_RETURN_IF_ERROR(staging_->Copy(row_ids_.data(), row_ids.data(), bytes));
  step_row_ids_ = row_ids.data();
  num_step_row_ids_ = row_ids.size();
  // Chunks of prompts differ in too much, and take long enough to hide their launches.
  const bool decodes = std::all_of(batch.sequences.begin(), batch.sequences.end(),
                                   [](const SequenceRows& rows) { return rows.num_rows == 1; });
  if (!use_graphs_ || !decodes) return false;
  GraphCache::Key key;
  key.rows = batch.num_rows;
  key.sampled = static_cast<int32_t>(row_ids.size());
  key.table_stride = batch.num_groups > 1 ? batch.num_table_entries : 0;
  key.token_ids = batch.token_ids;
  key.positions = batch.positions;
  key.slots = batch.slots;
  key.block_tables = batch.block_tables;
  return graphs_->Begin(key);
}

absl::Status CudaBackend::EndStep() { return graphs_->End(); }

absl::Status CudaBackend::SubmitStep() {
  OCTAVO_RETURN_IF_ERROR(UseDevice());
  if (submitted_ - finished_ == step_ends_.size())
    return absl::FailedPreconditionError(absl::StrCat(
        step_ends_.size(), " steps are submitted and not finished, which is the limit"));
  const size_t place = submitted_++ % step_ends_.size();
  sampled_[place] = std::exchange(sampling_, false);
  return ToStatus(cudaEventRecord(step_ends_[place].get(), compute_.get()),
                  "cudaEventRecord of a step");
}

absl::StatusOr<bool> CudaBackend::StepDone() {
  OCTAVO_RETURN_IF_ERROR(UseDevice());
  if (submitted_ == finished_) return true;
  const cudaError_t error = cudaEventQuery(step_ends_[finished_ % step_ends_.size()].get());
  if (error == cudaErrorNotReady) return false;
  OCTAVO_RETURN_IF_ERROR(ToStatus(error, "cudaEventQuery of a step"));
  return true;
}

absl::Status CudaBackend::FinishStep() {
  if (submitted_ == finished_)
    return absl::FailedPreconditionError("no step is submitted and not finished");
  OCTAVO_RETURN_IF_ERROR(UseDevice());
  const size_t place = finished_++ % step_ends_.size();
  OCTAVO_RETURN_IF_ERROR(
      ToStatus(cudaEventSynchronize(step_ends_[place].get()), "cudaEventSynchronize of a step"));
  return sampled_[place] ? sampler_.Finish() : absl::OkStatus();
}

absl::Status CudaBackend::Synchronize() {
  OCTAVO_RETURN_IF_ERROR(UseDevice());
  graphs_->Abandon();
  finished_ = submitted_;
  sampling_ = false;
  OCTAVO_RETURN_IF_ERROR(
      ToStatus(cudaStreamSynchronize(compute_.get()), "cudaStreamSynchronize of a step"));
  while (sampler_.unfinished()) OCTAVO_RETURN_IF_ERROR(sampler_.Finish());
  return absl::OkStatus();
}

}  // namespace octavo::cuda
