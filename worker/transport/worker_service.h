// octavo.worker.v1.Worker over the worker of this process.
#ifndef OCTAVO_WORKER_TRANSPORT_WORKER_SERVICE_H_
#define OCTAVO_WORKER_TRANSPORT_WORKER_SERVICE_H_

#include <atomic>

#include "grpcpp/grpcpp.h"
#include "octavo/worker/v1/worker.grpc.pb.h"
#include "worker/runtime/local_executor.h"

namespace octavo {

inline constexpr char kWorkerServiceName[] = "octavo.worker.v1.Worker";

// Called by gRPC's threads. Step is a callback method: its stream is open for as long as a
// scheduler lives and must not hold a thread. The others are short, or, as Load, few.
class WorkerService
    : public worker::v1::Worker::WithCallbackMethod_Step<worker::v1::Worker::Service> {
 public:
  // REQUIRES: `executor` outlives the service.
  explicit WorkerService(LocalExecutor& executor) : executor_(executor) {}

  // Open streams end with UNAVAILABLE after the step in flight; new calls are refused with it.
  void Stop();

  grpc::Status Describe(grpc::ServerContext* context, const worker::v1::DescribeRequest* request,
                        worker::v1::DescribeResponse* response) override;
  grpc::Status Load(grpc::ServerContext* context, const worker::v1::LoadRequest* request,
                    grpc::ServerWriter<worker::v1::LoadProgress>* writer) override;
  grpc::Status Configure(grpc::ServerContext* context, const worker::v1::ConfigureRequest* request,
                         worker::v1::ConfigureResponse* response) override;
  grpc::Status Reset(grpc::ServerContext* context, const worker::v1::ResetRequest* request,
                     worker::v1::ResetResponse* response) override;
  grpc::ServerBidiReactor<worker::v1::StepRequest, worker::v1::StepResult>* Step(
      grpc::CallbackServerContext* context) override;

 private:
  LocalExecutor& executor_;
  std::atomic<bool> stopping_{false};
};

}  // namespace octavo

#endif  // OCTAVO_WORKER_TRANSPORT_WORKER_SERVICE_H_
