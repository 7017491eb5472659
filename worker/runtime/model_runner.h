// Executes step plans: mirror, swaps, block copies, inputs, forward pass, sampling.
#ifndef OCTAVO_WORKER_RUNTIME_MODEL_RUNNER_H_
#define OCTAVO_WORKER_RUNTIME_MODEL_RUNNER_H_

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/executor.h"
#include "common/step.h"
#include "worker/backend/backend.h"
#include "worker/comm/communicator.h"
#include "worker/kv/kv_pool.h"
#include "worker/kv/table_mirror.h"
#include "worker/model/decoder.h"
#include "worker/model/model.h"
#include "worker/model/step_inputs.h"
#include "worker/runtime/memory_planner.h"
#include "worker/runtime/swap_queue.h"

namespace octavo {

// Owned and called by the device thread, but for BeginSwapIns and AbortCommunication.
class ModelRunner {
 public:
  // REQUIRES: both references outlive the runner.
  // `communication` says how the ranks reach each other; its place is the model's.
  ModelRunner(Backend& backend, const Model& model, const MemoryFlags& memory,
              const CommunicatorOptions& communication = {});

  // With num_blocks 0: how many blocks fit, here and on the host, and where other ranks reach this
  // one; nothing else changes. On a card of its own whose blocks take a share, the largest step is
  // run once for that, unless something is configured: RESOURCE_EXHAUSTED naming what of it did not
  // fit. Otherwise forgets all sequences, waits for the other ranks, and
  // allocates pool and activations for `config`. INVALID_ARGUMENT or RESOURCE_EXHAUSTED with value
  // and limit, or what Communicator says; after a failed allocation the runner is not configured.
  absl::StatusOr<WorkerCapacity> Configure(const WorkerConfig& config);

  // Drops sequences, pool and activations, and leaves the group, which the other ranks notice.
  void Forget();

  bool configured() const { return decoder_ != nullptr; }
  size_t num_sequences() const { return mirror_ == nullptr ? 0 : mirror_->num_sequences(); }

  // Starts one step. A plan that is refused changes nothing; after an error of the device the
  // cache's content is undefined and the caller must Forget. Step ids are the caller's to check.
  // REQUIRES: no step is unfinished, or one and RunsAhead(plan).
  absl::Status Begin(const StepPlan& plan);
  // Whether the step may begin before the one before it is finished, and one after it before it
  // is: the device must take its samples from there, and nothing in between may wait for the host.
  bool RunsAhead(const StepPlan& plan);
  size_t num_begun() const { return begun_.size(); }
  // Whether Finish would not wait. REQUIRES: num_begun() > 0, as Finish does.
  absl::StatusOr<bool> Done() { return backend_.StepDone(); }
  // The oldest step that has begun. Errors as of Begin.
  absl::StatusOr<StepResult> Finish();
  // Begin, then Finish.
  absl::StatusOr<StepResult> Execute(const StepPlan& plan);
  // Ends waiting for other ranks: a step in progress fails with `reason`. Thread-safe.
  void AbortCommunication(const absl::Status& reason);
  // The plan has arrived; it is executed after those before it. Thread-safe. REQUIRES: of the epoch
  // that Configure was last called for, or nothing is configured.
  void BeginSwapIns(const StepPlan& plan);

 private:
  SwapQueue* swaps();
  absl::StatusOr<WorkerCapacity> Plan(const MemoryUse& use, const CacheGeometry& geometry) const;
  // Plan, with what the largest step takes when that can be measured.
  absl::StatusOr<WorkerCapacity> PlanMeasured(const WorkerConfig& config, const MemoryUse& use,
                                              const CacheGeometry& geometry);
  absl::Status Measure(WorkerConfig config, const CacheGeometry& geometry, int64_t most_blocks,
                       int64_t computed_bytes);
  struct BegunStep {
    StepResult result;
    std::chrono::steady_clock::time_point start;
    std::vector<SequenceId> sequences;  // that sample, in plan order
    std::vector<int32_t> positions;     // of their samples
    std::vector<SampleOutput> sampled;  // of the sampling rank
    bool scores = false;
  };
  absl::Status Launch(const StepPlan& plan, BegunStep* step);
  absl::Status Deliver(BegunStep* step);
  absl::StatusOr<Communicator*> JoinGroup(const WorkerConfig& config);
  bool sampling_rank() const { return model_.split.place.rank == 0; }
  Communicator* communicator();
  // The backend waits for other ranks without an end; this waits for them before it does.
  absl::Status AwaitRanks();
  // What rank 0 sampled becomes what every rank remembers (step.5).
  absl::Status ShareSamples(const BegunStep& step);
  // Known tokens, some rows of logits at a time.
  absl::Status Score(StepResult* result);

  Backend& backend_;
  const Model& model_;
  const MemoryFlags memory_;
  int64_t activation_bytes_ = 0;  // of decoder_
  CommunicatorOptions communication_;
  std::unique_ptr<CommunicatorOffer> offer_;  // of the last query
  // Of the last measurement: for what limits, and what their largest step took.
  std::optional<WorkerConfig> measured_;
  int64_t measured_bytes_ = 0;
  std::unique_ptr<KvPool> pool_;
  std::unique_ptr<TableMirror> mirror_;
  std::unique_ptr<Decoder> decoder_;
  std::unique_ptr<StepInputs> inputs_;
  std::deque<BegunStep> begun_;                     // oldest first; at most kMaxStepsInFlight
  std::chrono::steady_clock::time_point finished_;  // the last step was
  SampleParams sample_params_;                      // reused
  std::vector<SampleOutput> sampled_;               // reused
  std::vector<int32_t> score_ids_;                  // reused
  std::vector<TokenId> shared_ids_;                 // reused
  absl::Mutex communicator_mutex_;                  // the device thread alone changes the pointer
  std::unique_ptr<Communicator> communicator_ ABSL_GUARDED_BY(communicator_mutex_);
  absl::Mutex swaps_mutex_;
  std::unique_ptr<SwapQueue> swaps_
      ABSL_GUARDED_BY(swaps_mutex_);  // of pool_; only with host blocks
};

}  // namespace octavo

#endif  // OCTAVO_WORKER_RUNTIME_MODEL_RUNNER_H_
