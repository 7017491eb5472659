#include "worker/transport/worker_service.h"

#include <limits>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/rpc/grpc_status.h"
#include "common/rpc/step_codec.h"
#include "worker/transport/step_stream.h"

namespace octavo {
namespace {

// Between two messages of Load: enough for a progress bar.
constexpr absl::Duration kProgressInterval = absl::Milliseconds(100);

absl::Status StoppingError() { return absl::UnavailableError("the worker is stopping"); }

// Ends a call that comes while the worker stops.
class RefusedStream
    : public grpc::ServerBidiReactor<worker::v1::StepRequest, worker::v1::StepResult> {
 public:
  RefusedStream() { Finish(ToGrpcStatus(StoppingError())); }
  void OnDone() override { delete this; }
};

}  // namespace

void WorkerService::Stop() {
  stopping_ = true;
  executor_.EndEpochs(std::numeric_limits<Epoch>::max(), StoppingError());
}

grpc::Status WorkerService::Describe(grpc::ServerContext*, const worker::v1::DescribeRequest*,
                                     worker::v1::DescribeResponse* response) {
  const absl::StatusOr<WorkerDescription> description = executor_.Describe();
  if (!description.ok()) return ToGrpcStatus(description.status());
  EncodeDescription(*description, response);
  return grpc::Status::OK;
}

grpc::Status WorkerService::Load(grpc::ServerContext* context, const worker::v1::LoadRequest*,
                                 grpc::ServerWriter<worker::v1::LoadProgress>* writer) {
  executor_.BeginLoad();
  LoadState state;
  int64_t sent_bytes = -1;
  absl::Time next = absl::Now();
  while (true) {
    state = executor_.AwaitLoad(sent_bytes, kProgressInterval);
    if (stopping_) return ToGrpcStatus(StoppingError());
    if (context->IsCancelled()) return grpc::Status::CANCELLED;
    if (state.done && !state.status.ok()) return ToGrpcStatus(state.status);
    if (state.done || (state.progress.done_bytes > sent_bytes && absl::Now() >= next)) {
      worker::v1::LoadProgress message;
      EncodeProgress(state.progress, &message);
      if (!writer->Write(message)) return grpc::Status::CANCELLED;
      sent_bytes = state.progress.done_bytes;
      next = absl::Now() + kProgressInterval;
    }
    if (state.done) return grpc::Status::OK;
    absl::SleepFor(next - absl::Now());
  }
}

grpc::Status WorkerService::Configure(grpc::ServerContext*,
                                      const worker::v1::ConfigureRequest* request,
                                      worker::v1::ConfigureResponse* response) {
  if (stopping_) return ToGrpcStatus(StoppingError());
  const absl::StatusOr<WorkerConfig> config = DecodeConfig(*request);
  if (!config.ok()) return ToGrpcStatus(config.status());
  const absl::StatusOr<WorkerCapacity> capacity = executor_.Configure(*config);
  if (!capacity.ok()) return ToGrpcStatus(capacity.status());
  EncodeCapacity(*capacity, response);
  return grpc::Status::OK;
}

grpc::Status WorkerService::Reset(grpc::ServerContext*, const worker::v1::ResetRequest* request,
                                  worker::v1::ResetResponse*) {
  executor_.EndEpochs(request->epoch(), absl::AbortedError("the epoch was reset"));
  return grpc::Status::OK;
}

grpc::ServerBidiReactor<worker::v1::StepRequest, worker::v1::StepResult>* WorkerService::Step(
    grpc::CallbackServerContext*) {
  if (stopping_) return new RefusedStream();
  return new StepStream(executor_);
}

}  // namespace octavo
