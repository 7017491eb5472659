#include "scheduler/transport/remote_step_stream.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/rpc/grpc_status.h"

namespace octavo {

RemoteStepStream::RemoteStepStream(worker::v1::Worker::Stub* stub, std::string worker,
                                   EpochPair epoch, const StepLimits& limits,
                                   Executor::ResultSink sink)
    : worker_(std::move(worker)), epoch_(epoch), limits_(limits), sink_(std::move(sink)) {
  stub->async()->Step(&context_, this);
  AddHold();
  StartRead(&incoming_);
  StartCall();
}

RemoteStepStream::~RemoteStepStream() {
  absl::MutexLock lock(&mutex_);
  stopping_ = true;
  if (!done_) context_.TryCancel();
  Release();
  mutex_.Await(absl::Condition(&done_));
}

absl::Status RemoteStepStream::Submit(const StepPlan& plan) {
  absl::MutexLock lock(&mutex_);
  if (!held_) return absl::UnavailableError(absl::StrCat("worker ", worker_, " is gone"));
  worker::v1::StepRequest& message = outgoing_.emplace_back();
  EncodePlan(plan, message.mutable_plan());
  message.mutable_plan()->set_epoch(epoch_.wire);
  if (outgoing_.size() == 1) StartWrite(&message);
  return absl::OkStatus();
}

void RemoteStepStream::OnReadDone(bool ok) {
  if (!ok) {
    absl::MutexLock lock(&mutex_);
    Release();
    return;
  }
  absl::StatusOr<StepResult> result = DecodeResult(incoming_, limits_);
  if (result.ok() && result->epoch != epoch_.wire)
    result = absl::InternalError(
        absl::StrCat("answered epoch ", result->epoch, " on the stream of epoch ", epoch_.wire));
  if (result.ok()) {
    result->epoch = epoch_.ours;
  } else {
    result = absl::InternalError(absl::StrCat("worker ", worker_, ": ", result.status().message()));
    absl::MutexLock lock(&mutex_);
    answered_ = true;
    context_.TryCancel();
  }
  const bool going_on = result.ok();
  sink_(std::move(result));
  if (going_on) {
    StartRead(&incoming_);
    return;
  }
  absl::MutexLock lock(&mutex_);
  Release();
}

void RemoteStepStream::OnWriteDone(bool ok) {
  absl::MutexLock lock(&mutex_);
  outgoing_.pop_front();
  if (ok && held_ && !outgoing_.empty()) StartWrite(&outgoing_.front());
}

void RemoteStepStream::OnDone(const grpc::Status& status) {
  bool report;
  {
    absl::MutexLock lock(&mutex_);
    report = !stopping_ && !std::exchange(answered_, true);
  }
  if (report) {
    const absl::Status why =
        status.ok() ? absl::UnavailableError("it ended the step stream") : FromGrpcStatus(status);
    sink_(absl::Status(why.code(), absl::StrCat("worker ", worker_, ": ", why.message())));
  }
  // The last thing that touches this: the destructor waits for it.
  absl::MutexLock lock(&mutex_);
  done_ = true;
}

void RemoteStepStream::Release() {
  if (std::exchange(held_, false)) RemoveHold();
}

}  // namespace octavo
