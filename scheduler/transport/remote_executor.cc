#include "scheduler/transport/remote_executor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/civil_time.h"
#include "absl/time/clock.h"
#include "common/rpc/grpc_status.h"
#include "common/rpc/server.h"

namespace octavo {
namespace {

// A worker that comes back is found within a second; gRPC's own default grows to two minutes.
grpc::ChannelArguments WorkerChannelArguments() {
  grpc::ChannelArguments arguments = ClientChannelArguments();
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  // Steps must not be repeated behind our back: a repeated id is the worker's to judge (step.1).
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  return arguments;
}

// Larger than any epoch that an earlier scheduler can have given to the same worker: those began at
// an earlier second, and no scheduler loses its workers once a second for its whole life.
Epoch NextWireEpoch(Epoch last) {
  const absl::Time start = absl::FromCivil(absl::CivilYear(2025), absl::UTCTimeZone());
  const int64_t seconds = absl::ToInt64Seconds(absl::Now() - start);
  return std::max(last + 1, static_cast<Epoch>(std::max<int64_t>(seconds, 1)));
}

}  // namespace

class RemoteExecutor::Cancellable {
 public:
  Cancellable(RemoteExecutor* executor, absl::Duration timeout) : executor_(executor) {
    if (timeout != absl::InfiniteDuration())
      context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
    absl::MutexLock lock(&executor_->mutex_);
    executor_->calling_ = &context;
  }
  ~Cancellable() {
    absl::MutexLock lock(&executor_->mutex_);
    executor_->calling_ = nullptr;
  }

  grpc::ClientContext context;

 private:
  RemoteExecutor* executor_;
};

RemoteExecutor::RemoteExecutor(const RemoteExecutorOptions& options)
    : options_(options),
      stub_(worker::v1::Worker::NewStub(grpc::CreateCustomChannel(
          options.target, grpc::InsecureChannelCredentials(), WorkerChannelArguments()))) {}

RemoteExecutor::~RemoteExecutor() { Stop(); }

absl::StatusOr<WorkerDescription> RemoteExecutor::Describe() {
  Cancellable call(this, options_.describe_timeout);
  worker::v1::DescribeResponse response;
  const grpc::Status status = stub_->Describe(&call.context, {}, &response);
  if (!status.ok()) return Annotate(status);
  absl::StatusOr<WorkerDescription> description = DecodeDescription(response);
  if (description.ok()) {
    // What an operator can reach; a worker on a free port does not know its own name.
    description->name = options_.target;
    limits_.vocab_size = description->vocab_size;
  }
  return description;
}

absl::Status RemoteExecutor::Load(const ProgressSink& progress) {
  // No deadline: weights take as long as the disk takes, and keepalive notices a dead worker.
  Cancellable call(this, absl::InfiniteDuration());
  const auto reader = stub_->Load(&call.context, {});
  worker::v1::LoadProgress message;
  while (reader->Read(&message)) progress(DecodeProgress(message));
  return Annotate(reader->Finish());
}

absl::StatusOr<WorkerCapacity> RemoteExecutor::Configure(const WorkerConfig& config) {
  Cancellable call(this, options_.configure_timeout);
  worker::v1::ConfigureRequest request;
  EncodeConfig(config, &request);
  const Epoch wire = NextWireEpoch(epoch_.wire);
  request.set_epoch(wire);
  worker::v1::ConfigureResponse response;
  const grpc::Status status = stub_->Configure(&call.context, request, &response);
  if (!status.ok()) return Annotate(status);
  if (config.num_blocks > 0) {
    epoch_ = {.ours = config.epoch, .wire = wire};
    limits_.max_num_seqs = config.max_num_seqs;
  }
  return DecodeCapacity(response);
}

absl::Status RemoteExecutor::Start(ResultSink sink) {
  stream_ = std::make_unique<RemoteStepStream>(stub_.get(), options_.target, epoch_, limits_,
                                               std::move(sink));
  return absl::OkStatus();
}

absl::Status RemoteExecutor::Submit(const StepPlan& plan) { return stream_->Submit(plan); }

void RemoteExecutor::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    if (calling_ != nullptr) calling_->TryCancel();
  }
  stream_.reset();
}

absl::Status RemoteExecutor::Annotate(const grpc::Status& status) const {
  if (status.ok()) return absl::OkStatus();
  const absl::Status why = FromGrpcStatus(status);
  return absl::Status(why.code(), absl::StrCat("worker ", options_.target, ": ", why.message()));
}

}  // namespace octavo
