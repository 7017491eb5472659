#include "tests/scheduler/transport/fake_worker_service.h"

#include "common/rpc/grpc_status.h"
#include "common/rpc/step_codec.h"

namespace octavo {

grpc::Status FakeWorkerService::Describe(grpc::ServerContext*, const worker::v1::DescribeRequest*,
                                         worker::v1::DescribeResponse* response) {
  const absl::StatusOr<WorkerDescription> description = executor_.Describe();
  if (description.ok()) EncodeDescription(*description, response);
  return ToGrpcStatus(description.status());
}

grpc::Status FakeWorkerService::Load(grpc::ServerContext*, const worker::v1::LoadRequest*,
                                     grpc::ServerWriter<worker::v1::LoadProgress>* writer) {
  return ToGrpcStatus(executor_.Load([writer](const LoadProgress& progress) {
    worker::v1::LoadProgress message;
    EncodeProgress(progress, &message);
    writer->Write(message);
  }));
}

grpc::Status FakeWorkerService::Configure(grpc::ServerContext*,
                                          const worker::v1::ConfigureRequest* request,
                                          worker::v1::ConfigureResponse* response) {
  const absl::StatusOr<WorkerConfig> config = DecodeConfig(*request);
  if (!config.ok()) return ToGrpcStatus(config.status());
  absl::MutexLock no_stream(&stream_mutex_);
  const absl::StatusOr<WorkerCapacity> capacity = executor_.Configure(*config);
  if (!capacity.ok()) return ToGrpcStatus(capacity.status());
  EncodeCapacity(*capacity, response);
  absl::MutexLock lock(&mutex_);
  if (config->num_blocks > 0) epoch_ = config->epoch;
  return grpc::Status::OK;
}

grpc::Status FakeWorkerService::Step(
    grpc::ServerContext* context,
    grpc::ServerReaderWriter<worker::v1::StepResult, worker::v1::StepRequest>* stream) {
  absl::MutexLock only_stream(&stream_mutex_);
  const absl::Status started =
      executor_.Start([context, stream](absl::StatusOr<StepResult> result) {
        // The handler is in Read: only this wakes it.
        if (!result.ok()) return context->TryCancel();
        worker::v1::StepResult message;
        EncodeResult(*result, &message);
        stream->Write(message);
      });
  if (!started.ok()) return ToGrpcStatus(started);
  worker::v1::StepRequest message;
  while (stream->Read(&message)) {
    const absl::StatusOr<StepPlan> plan = DecodePlan(message.plan(), {});
    if (!plan.ok() || !executor_.Submit(*plan).ok()) break;
  }
  executor_.Stop();
  return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the step stream ended");
}

Epoch FakeWorkerService::epoch() {
  absl::MutexLock lock(&mutex_);
  return epoch_;
}

}  // namespace octavo
