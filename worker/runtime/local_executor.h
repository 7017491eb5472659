// A worker in this process: the Executor of `octavo serve`, and what the worker service serves.
#ifndef OCTAVO_WORKER_RUNTIME_LOCAL_EXECUTOR_H_
#define OCTAVO_WORKER_RUNTIME_LOCAL_EXECUTOR_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/checkpoint/checkpoint.h"
#include "common/executor.h"
#include "worker/runtime/device_thread.h"
#include "worker/runtime/make_device.h"
#include "worker/runtime/memory_planner.h"
#include "worker/runtime/model_runner.h"
#include "worker/runtime/step_ledger.h"

namespace octavo {

struct LocalExecutorOptions {
  std::string name = "in-process";
  std::string model_path;
  std::string load_format = "auto";  // as OpenModel takes it
  DeviceOptions device;
  MemoryFlags memory;
  CommunicatorOptions communication;  // its place: which share of the model
};

struct LoadState {
  LoadProgress progress;
  bool done = false;
  absl::Status status;  // once done
};

// Thread-safe: the methods of Executor are for one owner, the others for the worker service, whose
// callers come and go. All of them hand their work to one device thread.
//
// A session is one step stream of the configured epoch. When it ends, by its owner or by an error,
// the sequences and the pool are forgotten and the epoch is over: the next scheduler configures
// anew. While a session is open only a larger epoch may be configured, which ends it, and others
// are UNAVAILABLE until it ends; otherwise any epoch may, since a restarted scheduler does not know
// the last one.
class LocalExecutor : public Executor {
 public:
  using SessionId = uint64_t;

  // Opens the checkpoint and the device; does not load yet. Errors name path or option.
  static absl::StatusOr<std::unique_ptr<LocalExecutor>> Create(const LocalExecutorOptions& options);
  // Stops loading at the next layer; a step in flight finishes.
  ~LocalExecutor() override;

  absl::StatusOr<WorkerDescription> Describe() override;
  absl::Status Load(const ProgressSink& progress) override;
  absl::StatusOr<WorkerCapacity> Configure(const WorkerConfig& config) override;
  absl::Status Start(ResultSink sink) override;
  absl::Status Submit(const StepPlan& plan) override;
  void Stop() override;

  // Begins loading unless that has happened; returns at once.
  void BeginLoad();
  // Waits until more than `seen_bytes` are read or loading is done, at most `timeout`.
  LoadState AwaitLoad(int64_t seen_bytes, absl::Duration timeout) const;

  // As Start, Submit and Stop, for one of several callers. FAILED_PRECONDITION while another
  // session of the epoch is open (there are never two), or when no epoch is configured.
  absl::StatusOr<SessionId> OpenSession(ResultSink sink);
  absl::Status Submit(SessionId session, const StepPlan& plan);
  // Ends the session without waiting: a step in flight may still be answered, but waits no longer
  // for other ranks. Unknown ids are fine: the session may have been replaced.
  void AbandonSession(SessionId session);
  // The same, and returns when the sink is not called any more. Not from a sink.
  void CloseSession(SessionId session);
  // Ends the configured epoch if it is at most `up_to`, after the step in flight; the sink of its
  // open session is called with `reason`. REQUIRES: an error. Not from a sink.
  void EndEpochs(Epoch up_to, const absl::Status& reason);

 private:
  struct Session {
    SessionId id = 0;
    ResultSink sink;
    StepLedger ledger;    // device thread only
    bool failed = false;  // device thread only: an error was answered
    int unanswered = 0;   // guarded by mutex_
    bool ended = false;   // guarded by mutex_: steps still queued are not computed
  };

  LocalExecutor(const LocalExecutorOptions& options, const RankSplit& split,
                std::unique_ptr<Checkpoint> checkpoint, std::unique_ptr<Backend> backend);

  void LoadOnDevice();
  void RunStep(const std::shared_ptr<Session>& session, const StepPlan& plan);
  // Finishes and answers the steps that have begun, but lets tasks that come meanwhile go first:
  // one may be the next step, which keeps the device busy.
  void AwaitSteps();
  // Waits for the oldest step that has begun, and answers it. False: it failed, and the session is
  // over.
  bool FinishStep();
  void Answer(Session& session, const StepResult& result);
  void EndSession(const std::shared_ptr<Session>& session, const absl::Status& reason);
  void FailOnDevice(Session& session, const absl::Status& reason);
  // Ends the configured epoch and detaches its session, if any.
  std::shared_ptr<Session> TakeSession() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteMemory();

  const std::string name_;
  const MemoryFlags memory_flags_;
  const CommunicatorOptions communication_;
  const RankSplit split_;

  // Device thread only, once constructed. `runner_` is there once the weights are, for whoever has
  // a session.
  std::unique_ptr<Checkpoint> checkpoint_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<ModelRunner> runner_;
  std::shared_ptr<Session> computing_;  // whose steps have begun
  bool awaiting_ = false;               // AwaitSteps is in the queue

  // Held around a task that configures or ends: at most one of those is in the device's queue, so
  // there is always room for the steps in flight.
  absl::Mutex control_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);

  mutable absl::Mutex mutex_;
  WorkerDescription description_ ABSL_GUARDED_BY(mutex_);
  LoadState load_ ABSL_GUARDED_BY(mutex_);
  bool load_begun_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<Epoch> epoch_ ABSL_GUARDED_BY(mutex_);  // configured and not over
  std::shared_ptr<Session> session_ ABSL_GUARDED_BY(mutex_);
  SessionId last_session_ ABSL_GUARDED_BY(mutex_) = 0;
  SessionId own_session_ ABSL_GUARDED_BY(mutex_) = 0;  // of Start

  DeviceThread device_;  // last: its tasks use what is above
};

}  // namespace octavo

#endif  // OCTAVO_WORKER_RUNTIME_LOCAL_EXECUTOR_H_
