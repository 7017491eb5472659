// octavo.worker.v1.Worker in front of a FakeExecutor: what a worker process looks like to a
// scheduler.
#ifndef OCTAVO_TESTS_SCHEDULER_TRANSPORT_FAKE_WORKER_SERVICE_H_
#define OCTAVO_TESTS_SCHEDULER_TRANSPORT_FAKE_WORKER_SERVICE_H_

#include <memory>

#include "absl/synchronization/mutex.h"
#include "octavo/worker/v1/worker.grpc.pb.h"
#include "tests/fakes/fake_executor.h"

namespace octavo {

class FakeWorkerService : public worker::v1::Worker::Service {
 public:
  explicit FakeWorkerService(std::shared_ptr<FakeWorkerControl> control)
      : executor_(std::move(control)) {}

  grpc::Status Describe(grpc::ServerContext*, const worker::v1::DescribeRequest*,
                        worker::v1::DescribeResponse* response) override;
  grpc::Status Load(grpc::ServerContext*, const worker::v1::LoadRequest*,
                    grpc::ServerWriter<worker::v1::LoadProgress>* writer) override;
  grpc::Status Configure(grpc::ServerContext*, const worker::v1::ConfigureRequest* request,
                         worker::v1::ConfigureResponse* response) override;
  grpc::Status Step(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<worker::v1::StepResult, worker::v1::StepRequest>* stream) override;

  Epoch epoch();  // on the wire, last configured

 private:
  absl::Mutex stream_mutex_;  // held by the open Step call: the next one waits for its end
  absl::Mutex mutex_;
  Epoch epoch_ = 0;
  FakeExecutor executor_;
};

}  // namespace octavo

#endif  // OCTAVO_TESTS_SCHEDULER_TRANSPORT_FAKE_WORKER_SERVICE_H_
