// A worker process behind octavo.worker.v1.Worker.
#ifndef OCTAVO_SCHEDULER_TRANSPORT_REMOTE_EXECUTOR_H_
#define OCTAVO_SCHEDULER_TRANSPORT_REMOTE_EXECUTOR_H_

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/executor.h"
#include "common/rpc/step_codec.h"
#include "grpcpp/grpcpp.h"
#include "octavo/worker/v1/worker.grpc.pb.h"
#include "scheduler/transport/remote_step_stream.h"

namespace octavo {

struct RemoteExecutorOptions {
  std::string target;  // "host:port"
  absl::Duration describe_timeout = absl::Seconds(5);
  // A query may run the largest step once to measure its memory.
  absl::Duration configure_timeout = absl::Minutes(10);
};

// Threads as Executor says; results arrive on gRPC's threads.
class RemoteExecutor : public Executor {
 public:
  explicit RemoteExecutor(const RemoteExecutorOptions& options);
  ~RemoteExecutor() override;

  absl::StatusOr<WorkerDescription> Describe() override;
  absl::Status Load(const ProgressSink& progress) override;
  absl::StatusOr<WorkerCapacity> Configure(const WorkerConfig& config) override;
  absl::Status Start(ResultSink sink) override;
  absl::Status Submit(const StepPlan& plan) override;
  // Also cancels a Describe, Load or Configure that another thread is in.
  void Stop() override;

 private:
  // Makes `context` the one that Stop cancels, while it lives.
  class Cancellable;

  absl::Status Annotate(const grpc::Status& status) const;

  const RemoteExecutorOptions options_;
  const std::unique_ptr<worker::v1::Worker::Stub> stub_;
  EpochPair epoch_;  // of the last Configure with blocks
  StepLimits limits_;
  std::unique_ptr<RemoteStepStream> stream_;

  absl::Mutex mutex_;
  grpc::ClientContext* calling_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_TRANSPORT_REMOTE_EXECUTOR_H_
