#include "worker/transport/step_stream.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "common/rpc/grpc_status.h"
#include "common/rpc/step_codec.h"
#include "common/status_macros.h"

namespace octavo {
namespace {

// Results that may wait for a client that reads slowly.
constexpr size_t kOutboxCapacity = 4 * kMaxStepsInFlight;

}  // namespace

StepStream::StepStream(LocalExecutor& executor)
    : executor_(executor), anchor_(std::make_shared<Anchor>()) {
  {
    absl::MutexLock lock(&anchor_->mutex);
    anchor_->stream = this;
  }
  absl::StatusOr<LocalExecutor::SessionId> session =
      executor_.OpenSession([anchor = anchor_](absl::StatusOr<StepResult> answer) {
        absl::MutexLock lock(&anchor->mutex);
        if (anchor->stream != nullptr) anchor->stream->OnAnswer(std::move(answer));
      });
  if (!session.ok()) {
    End(session.status());
    return;
  }
  session_ = *session;
  OCTAVO_LOG(kInfo, "step stream opened session=", session_);
  // The peer sees at once that the stream is open, before the first result.
  StartSendInitialMetadata();
  StartRead(&message_);
}

void StepStream::OnReadDone(bool ok) {
  if (!ok) return End(absl::OkStatus());
  if (const absl::Status status = Accept(message_); !status.ok()) return End(status);
  StartRead(&message_);
}

absl::Status StepStream::Accept(const worker::v1::StepRequest& request) {
  switch (request.request_case()) {
    case worker::v1::StepRequest::kPlan: {
      OCTAVO_ASSIGN_OR_RETURN(const StepPlan plan, DecodePlan(request.plan(), StepLimits{}));
      return executor_.Submit(session_, plan);
    }
    case worker::v1::StepRequest::kMasks:
      return absl::InvalidArgumentError(
          absl::StrCat("masks of step ", request.masks().step(), ": no step waits for masks"));
    case worker::v1::StepRequest::REQUEST_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("a step request holds neither a plan nor masks");
}

void StepStream::OnAnswer(absl::StatusOr<StepResult> answer) {
  absl::MutexLock lock(&mutex_);
  if (end_) return;
  if (!answer.ok()) return EndLocked(answer.status());
  if (outbox_.size() >= kOutboxCapacity)
    return EndLocked(absl::ResourceExhaustedError(absl::StrCat(
        outbox_.size(), " results wait to be read by the client; the limit is ", kOutboxCapacity)));
  EncodeResult(*answer, &outbox_.emplace_back());
  WriteOrFinishLocked();
}

void StepStream::OnWriteDone(bool ok) {
  absl::MutexLock lock(&mutex_);
  writing_ = false;
  outbox_.pop_front();
  if (!ok) {
    outbox_.clear();
    return EndLocked(absl::CancelledError("the client is gone"));
  }
  WriteOrFinishLocked();
}

void StepStream::OnCancel() {
  absl::MutexLock lock(&mutex_);
  EndLocked(absl::CancelledError("the client is gone"));
}

void StepStream::OnDone() {
  {
    absl::MutexLock lock(&anchor_->mutex);
    anchor_->stream = nullptr;
  }
  if (session_ != 0) {
    executor_.AbandonSession(session_);
    OCTAVO_LOG(kInfo, "step stream closed session=", session_);
  }
  delete this;
}

void StepStream::End(const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  EndLocked(status);
}

void StepStream::EndLocked(const absl::Status& status) {
  if (!end_) end_ = status;
  WriteOrFinishLocked();
}

void StepStream::WriteOrFinishLocked() {
  if (writing_ || finished_) return;
  if (!outbox_.empty()) {
    writing_ = true;
    StartWrite(&outbox_.front());
  } else if (end_) {
    finished_ = true;
    Finish(ToGrpcStatus(*end_));
  }
}

}  // namespace octavo
