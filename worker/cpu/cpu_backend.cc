#include "worker/cpu/cpu_backend.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/cpu/embedding.h"
#include "worker/cpu/host_buffer.h"
#include "worker/cpu/host_limits.h"
#include "worker/cpu/rope.h"
#include "worker/cpu/softcap.h"

namespace octavo {

namespace {

const char* Name(ActivationDType activations) {
  switch (activations) {
    case ActivationDType::kFloat32:
      return "float32";
    case ActivationDType::kBFloat16:
      return "bfloat16";
    case ActivationDType::kInt8:
      return "int8";
  }
  return "unknown";
}

}  // namespace

absl::StatusOr<std::unique_ptr<CpuBackend>> CpuBackend::Create(const CpuBackendOptions& options) {
  if (options.threads < 0 || options.threads > kMaxThreads)
    return absl::InvalidArgumentError(absl::StrCat("threads is ", options.threads,
                                                   "; it must be between 1 and ", kMaxThreads,
                                                   ", or 0 for one per physical core"));
  const Isa best = DetectIsa();
  const Isa isa = options.isa.value_or(best);
  if (isa > best)
    return absl::FailedPreconditionError(absl::StrCat("this CPU or system has no ", Name(isa), "; ",
                                                      Name(best), " is the best available"));
  if (options.activations == ActivationDType::kInt8 && (isa == Isa::kAvx2 || !HasVnni()))
    return absl::FailedPreconditionError(
        "int8 activations need AVX-512 with VNNI; float32 runs on this CPU and instruction set");
  const int threads = options.threads > 0 ? options.threads : DefaultThreads();
  return std::unique_ptr<CpuBackend>(new CpuBackend(threads, options.activations, isa));
}

CpuBackend::CpuBackend(int threads, ActivationDType activations, Isa isa)
    : activations_(activations),
      isa_(isa),
      pool_(threads),
      attention_(isa, pool_),
      sampler_(pool_) {}

std::string CpuBackend::numeric_path() const {
  return absl::StrCat("cpu/", Name(isa_), "/", Name(activations_));
}

absl::StatusOr<DeviceMemory> CpuBackend::Memory() const {
  OCTAVO_ASSIGN_OR_RETURN(const HostMemory host, ReadHostMemory());
  DeviceMemory memory;
  memory.total_bytes = host.total_bytes;
  memory.free_bytes = host.available_bytes;
  return memory;
}

absl::StatusOr<Buffer> CpuBackend::Allocate(size_t bytes) {
  OCTAVO_ASSIGN_OR_RETURN(const DeviceMemory memory, Memory());
  if (bytes > static_cast<size_t>(memory.total_bytes))
    return absl::ResourceExhaustedError(absl::StrCat(
        bytes, " bytes do not fit: this process may use ", memory.total_bytes, " bytes of memory"));
  return AllocateHostBuffer(bytes);
}

absl::Status CpuBackend::CopyToDevice(void* device, const void* host, size_t bytes) {
  if (bytes > 0) std::memcpy(device, host, bytes);
  return absl::OkStatus();
}

absl::Status CpuBackend::CopyToHost(void* host, const void* device, size_t bytes) {
  if (bytes > 0) std::memcpy(host, device, bytes);
  return absl::OkStatus();
}

absl::StatusOr<Buffer> CpuBackend::AllocateHost(size_t bytes) { return Allocate(bytes); }

absl::Status CpuBackend::SwapOut(void* host, const void* device, size_t bytes) {
  return CopyToHost(host, device, bytes);
}

absl::Status CpuBackend::SwapIn(void* device, const void* host, size_t bytes) {
  return CopyToDevice(device, host, bytes);
}

absl::StatusOr<std::unique_ptr<LinearWeight>> CpuBackend::PackLinear(const LinearSource& source) {
  OCTAVO_ASSIGN_OR_RETURN(std::unique_ptr<LinearWeight> weight,
                          PackedLinear::Pack(source, arena_, pool_));
  return weight;
}

absl::StatusOr<std::unique_ptr<EmbeddingWeight>> CpuBackend::PackEmbedding(
    const WeightView& source) {
  OCTAVO_ASSIGN_OR_RETURN(std::unique_ptr<EmbeddingWeight> weight, StoredEmbedding::Create(source));
  return weight;
}

absl::Status CpuBackend::Embed(const EmbedParams& params) {
  const auto* weight = dynamic_cast<const StoredEmbedding*>(params.weight);
  if (weight == nullptr)
    return absl::InvalidArgumentError("embed: the weight is missing or another backend's");
  return octavo::Embed(*weight, params, pool_);
}

absl::Status CpuBackend::Linear(const LinearParams& params) {
  const auto* weight = dynamic_cast<const PackedLinear*>(params.weight);
  if (weight == nullptr)
    return absl::InvalidArgumentError("linear: the weight is missing or another backend's");
  return RunLinear(*weight, params, activations_, isa_, pool_, matmul_scratch_);
}

absl::Status CpuBackend::AddNormed(const AddNormedParams& params) {
  return AddNormedRows(params, isa_, pool_);
}

absl::Status CpuBackend::Softcap(const SoftcapParams& params) {
  return octavo::Softcap(params, pool_);
}

absl::Status CpuBackend::RopeAndWriteKv(const RopeAndWriteKvParams& params) {
  return octavo::RopeAndWriteKv(params, pool_);
}

absl::Status CpuBackend::PagedAttention(const PagedAttentionParams& params) {
  return attention_.Run(params);
}

absl::Status CpuBackend::CopyBlocks(const CopyBlocksParams& params) {
  if (params.copies.empty()) return absl::OkStatus();
  if (params.pool.data == nullptr)
    return absl::InvalidArgumentError("copy blocks: the pool is missing");
  for (const BlockCopy& copy : params.copies)
    if (copy.source < 0 || copy.target < 0)
      return absl::InvalidArgumentError(absl::StrCat("copy blocks: block ", copy.source, " to ",
                                                     copy.target, "; ids are at least 0"));
  const int64_t bytes = params.pool.geometry.bytes_per_block();
  const auto count = static_cast<int64_t>(params.copies.size());
  pool_.Run([&](int thread) {
    for (int64_t i = thread; i < count; i += pool_.size()) {
      const BlockCopy& copy = params.copies[static_cast<size_t>(i)];
      if (copy.source == copy.target) continue;
      std::memcpy(params.pool.data + copy.target * bytes, params.pool.data + copy.source * bytes,
                  static_cast<size_t>(bytes));
    }
  });
  return absl::OkStatus();
}

absl::Status CpuBackend::Sample(const SampleParams& params) { return sampler_.Run(params); }

}  // namespace octavo
