// The CPU device: every backend op on host memory, with run-time choice of instruction set.
#ifndef OCTAVO_WORKER_CPU_CPU_BACKEND_H_
#define OCTAVO_WORKER_CPU_CPU_BACKEND_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/backend/backend.h"
#include "worker/cpu/attention.h"
#include "worker/cpu/isa.h"
#include "worker/cpu/matmul.h"
#include "worker/cpu/sample.h"
#include "worker/cpu/thread_pool.h"
#include "worker/cpu/weight_arena.h"

namespace octavo {

struct CpuBackendOptions {
  int threads = 0;  // 0: DefaultThreads()
  ActivationDType activations = ActivationDType::kFloat32;
  std::optional<Isa> isa;  // nullopt: the best of this CPU
};

// Ops are complete when they return. Weights must not outlive it.
class CpuBackend : public Backend {
 public:
  // INVALID_ARGUMENT for a negative thread count or more than kMaxThreads; FAILED_PRECONDITION for
  // an instruction set that this CPU lacks.
  static absl::StatusOr<std::unique_ptr<CpuBackend>> Create(const CpuBackendOptions& options);

  static constexpr int kMaxThreads = 1024;

  std::string device_name() const override { return "cpu"; }
  std::string numeric_path() const override;
  absl::StatusOr<DeviceMemory> Memory() const override;
  int threads() const { return pool_.size(); }

  absl::StatusOr<Buffer> Allocate(size_t bytes) override;
  absl::Status CopyToDevice(void* device, const void* host, size_t bytes) override;
  absl::Status CopyToHost(void* host, const void* device, size_t bytes) override;
  absl::StatusOr<Buffer> AllocateHost(size_t bytes) override;
  absl::Status SwapOut(void* host, const void* device, size_t bytes) override;
  absl::Status SwapIn(void* device, const void* host, size_t bytes) override;

  absl::StatusOr<std::unique_ptr<LinearWeight>> PackLinear(const LinearSource& source) override;
  absl::StatusOr<std::unique_ptr<EmbeddingWeight>> PackEmbedding(const WeightView& source) override;

  absl::Status Embed(const EmbedParams& params) override;
  absl::Status Linear(const LinearParams& params) override;
  absl::Status AddNormed(const AddNormedParams& params) override;
  absl::Status Softcap(const SoftcapParams& params) override;
  absl::Status RopeAndWriteKv(const RopeAndWriteKvParams& params) override;
  absl::Status PagedAttention(const PagedAttentionParams& params) override;
  absl::Status CopyBlocks(const CopyBlocksParams& params) override;
  absl::Status Sample(const SampleParams& params) override;
  absl::Status Synchronize() override { return absl::OkStatus(); }

 private:
  CpuBackend(int threads, ActivationDType activations, Isa isa);

  const ActivationDType activations_;
  const Isa isa_;
  ThreadPool pool_;
  WeightArena arena_;
  MatmulScratch matmul_scratch_;
  Attention attention_;
  Sampler sampler_;
};

}  // namespace octavo

#endif  // OCTAVO_WORKER_CPU_CPU_BACKEND_H_
