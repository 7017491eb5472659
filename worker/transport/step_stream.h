// One open Step call: plans in, results out.
#ifndef OCTAVO_WORKER_TRANSPORT_STEP_STREAM_H_
#define OCTAVO_WORKER_TRANSPORT_STEP_STREAM_H_

#include <deque>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/step.h"
#include "grpcpp/grpcpp.h"
#include "octavo/worker/v1/worker.pb.h"
#include "worker/runtime/local_executor.h"

namespace octavo {

// Lives from the call's start until gRPC says OnDone, and then deletes itself. gRPC's threads read
// plans and the device thread writes results, so a step costs no hand-over between threads of ours.
class StepStream : public grpc::ServerBidiReactor<worker::v1::StepRequest, worker::v1::StepResult> {
 public:
  // Opens a session of the configured epoch, or ends the call with why there is none. REQUIRES:
  // `executor` outlives the call.
  explicit StepStream(LocalExecutor& executor);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  // What the session's sink holds: the stream may be gone when the last answer comes.
  struct Anchor {
    absl::Mutex mutex;
    StepStream* stream ABSL_GUARDED_BY(mutex) = nullptr;
  };

  absl::Status Accept(const worker::v1::StepRequest& request);
  void OnAnswer(absl::StatusOr<StepResult> answer);
  // The call ends with `status` once the results before it are written; the session is abandoned.
  void End(const absl::Status& status);
  void EndLocked(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WriteOrFinishLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  LocalExecutor& executor_;
  const std::shared_ptr<Anchor> anchor_;
  LocalExecutor::SessionId session_ = 0;
  worker::v1::StepRequest message_;  // being read

  absl::Mutex mutex_;
  std::deque<worker::v1::StepResult> outbox_ ABSL_GUARDED_BY(mutex_);  // front: being written
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace octavo

#endif  // OCTAVO_WORKER_TRANSPORT_STEP_STREAM_H_
