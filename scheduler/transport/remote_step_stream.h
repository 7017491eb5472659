// The client's end of one Step call: plans out, results in.
#ifndef OCTAVO_SCHEDULER_TRANSPORT_REMOTE_STEP_STREAM_H_
#define OCTAVO_SCHEDULER_TRANSPORT_REMOTE_STEP_STREAM_H_

#include <deque>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/executor.h"
#include "common/rpc/step_codec.h"
#include "grpcpp/grpcpp.h"
#include "octavo/worker/v1/worker.grpc.pb.h"

namespace octavo {

// A worker may outlive schedulers, so the epochs on the wire are larger than those of the plans.
struct EpochPair {
  Epoch ours = 0;
  Epoch wire = 0;
};

// Submit is called by one thread; the sink by gRPC's.
class RemoteStepStream
    : public grpc::ClientBidiReactor<worker::v1::StepRequest, worker::v1::StepResult> {
 public:
  // Opens the call. `stub` outlives the stream. `worker` names it in errors.
  RemoteStepStream(worker::v1::Worker::Stub* stub, std::string worker, EpochPair epoch,
                   const StepLimits& limits, Executor::ResultSink sink);
  // Cancels the call and waits until gRPC lets go of it; the sink is not called after that.
  ~RemoteStepStream() override;

  // UNAVAILABLE once the call has ended.
  absl::Status Submit(const StepPlan& plan);

  // Of gRPC.
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

 private:
  void Release() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string worker_;
  const EpochPair epoch_;
  const StepLimits limits_;
  const Executor::ResultSink sink_;
  grpc::ClientContext context_;
  worker::v1::StepResult incoming_;  // of the read in progress

  absl::Mutex mutex_;
  // The first is being written.
  std::deque<worker::v1::StepRequest> outgoing_ ABSL_GUARDED_BY(mutex_);
  bool held_ ABSL_GUARDED_BY(mutex_) = true;       // writes may start: gRPC must not end the call
  bool answered_ ABSL_GUARDED_BY(mutex_) = false;  // with an error: nothing follows it
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_TRANSPORT_REMOTE_STEP_STREAM_H_
