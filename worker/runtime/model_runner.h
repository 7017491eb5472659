// Executes step plans: mirror, swaps, block copies, inputs, forward pass, sampling.
#ifndef OCTAVO_WORKER_RUNTIME_MODEL_RUNNER_H_
#define OCTAVO_WORKER_RUNTIME_MODEL_RUNNER_H_

#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/executor.h"
#include "common/step.h"
#include "worker/backend/backend.h"
#include "worker/kv/kv_pool.h"
#include "worker/kv/table_mirror.h"
#include "worker/model/decoder.h"
#include "worker/model/model.h"
#include "worker/model/step_inputs.h"
#include "worker/runtime/memory_planner.h"
#include "worker/runtime/swap_queue.h"

namespace octavo {

// Owned and called by the device thread, but for BeginSwapIns.
class ModelRunner {
 public:
  // REQUIRES: both references outlive the runner.
  ModelRunner(Backend& backend, const Model& model, const MemoryFlags& memory);

  // With num_blocks 0: how many blocks fit, here and on the host; nothing changes. Otherwise
  // forgets all sequences and allocates pool and activations for `config`. INVALID_ARGUMENT or
  // RESOURCE_EXHAUSTED with value and limit; after a failed allocation the runner is not
  // configured.
  absl::StatusOr<WorkerCapacity> Configure(const WorkerConfig& config);

  // Drops sequences, pool and activations.
  void Forget();

  bool configured() const { return decoder_ != nullptr; }
  size_t num_sequences() const { return mirror_ == nullptr ? 0 : mirror_->num_sequences(); }

  // Computes one step. A plan that is refused changes nothing; after an error of the device the
  // cache's content is undefined and the caller must Forget. Step ids are the caller's to check.
  absl::StatusOr<StepResult> Execute(const StepPlan& plan);
  // The plan has arrived; it is executed after those before it. Thread-safe. REQUIRES: of the epoch
  // that Configure was last called for, or nothing is configured.
  void BeginSwapIns(const StepPlan& plan);

 private:
  SwapQueue* swaps();
  absl::StatusOr<WorkerCapacity> Plan(const MemoryUse& use, const CacheGeometry& geometry) const;
  absl::Status Compute(const StepPlan& plan, StepResult* result);
  absl::Status Sample(Matrix logits, StepResult* result);
  // Known tokens, some rows of logits at a time.
  absl::Status Score(StepResult* result);

  Backend& backend_;
  const Model& model_;
  const MemoryFlags memory_;
  int64_t activation_bytes_ = 0;  // of decoder_
  std::unique_ptr<KvPool> pool_;
  std::unique_ptr<TableMirror> mirror_;
  std::unique_ptr<Decoder> decoder_;
  std::unique_ptr<StepInputs> inputs_;
  SampleParams sample_params_;         // reused
  std::vector<SampleOutput> sampled_;  // reused
  std::vector<int32_t> score_ids_;     // reused
  absl::Mutex swaps_mutex_;
  std::unique_ptr<SwapQueue> swaps_
      ABSL_GUARDED_BY(swaps_mutex_);  // of pool_; only with host blocks
};

}  // namespace octavo

#endif  // OCTAVO_WORKER_RUNTIME_MODEL_RUNNER_H_
