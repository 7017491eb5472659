#include "scheduler/transport/generate_call.h"

#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/rpc/error_details.h"
#include "common/status_macros.h"
#include "scheduler/transport/engine_errors.h"
#include "scheduler/transport/request_translation.h"
#include "scheduler/transport/served_fields.h"

namespace octavo {
namespace {

uint64_t RandomBits() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

}  // namespace

std::shared_ptr<GenerateCall> GenerateCall::Start(const GenerateContext& context,
                                                  const v1::GenerateRequest* request,
                                                  const CallOptions& options, MessageSink* sink) {
  std::shared_ptr<GenerateCall> call(new GenerateCall(context, request, options, sink));
  if (!context.tasks->TryRun([call] { call->Prepare(); })) {
    absl::MutexLock lock(&call->mutex_);
    call->End(WithAdvice(absl::ResourceExhaustedError("too many prompts wait to be tokenised"),
                         context.engine->snapshot()));
  }
  return call;
}

GenerateCall::GenerateCall(const GenerateContext& context, const v1::GenerateRequest* request,
                           const CallOptions& options, MessageSink* sink)
    : context_(context),
      request_(request),
      options_(options),
      sink_(sink),
      request_id_(request->request_id().empty() ? absl::StrCat("gen-", absl::Hex(RandomBits()))
                                                : request->request_id()) {}

void GenerateCall::Prepare() {
  // Nobody else ends the call before the engine has the request, so `request_` stays.
  absl::StatusOr<Request> request = [this]() -> absl::StatusOr<Request> {
    OCTAVO_RETURN_IF_ERROR(CheckServed(*request_));
    return TranslateRequest(*request_, *context_.model, RandomBits());
  }();

  absl::MutexLock lock(&mutex_);
  if (cancelled_) return EndCancelled();
  if (!request.ok()) return End(request.status());
  const std::weak_ptr<GenerateCall> weak = weak_from_this();
  registered_ = context_.registry->Add(request_id_, [weak] {
    if (const auto call = weak.lock()) call->Abort();
  });
  if (!registered_)
    return End(WithResource(
        absl::AlreadyExistsError(absl::StrCat("request id \"", request_id_, "\" is in use")),
        {"request", request_id_}));
  writer_.emplace(context_.model->tokenizer.get(), request_id_, request->sampling.seed,
                  ShapeOf(*request_));
  const int32_t scores =
      request->prompt_logprobs < 0 ? 0 : static_cast<int32_t>(request->prompt.size());
  const auto on_ready = [weak] {
    if (const auto call = weak.lock()) call->OnEvents();
  };
  stream_ = std::make_shared<TokenStream>(request->max_tokens, request->n, on_ready, scores);
  const absl::StatusOr<RequestId> id = context_.engine->Submit(*std::move(request), stream_);
  if (!id.ok()) return End(WithAdvice(id.status(), context_.engine->snapshot()));
  id_ = *id;
  context_.registry->Bind(request_id_, *id);
  if (aborted_) context_.engine->Abort(*id_);
}

void GenerateCall::Abort() {
  absl::MutexLock lock(&mutex_);
  aborted_ = true;
  if (id_.has_value()) context_.engine->Abort(*id_);
}

void GenerateCall::OnEvents() {
  absl::MutexLock lock(&mutex_);
  if (finished_) return;
  if (!cancelled_) TakeEvents();
  Pump();
}

void GenerateCall::OnWritten(bool ok) {
  absl::MutexLock lock(&mutex_);
  writing_ = false;
  if (!ok) cancelled_ = true;
  Pump();
}

void GenerateCall::OnCancelled() {
  absl::MutexLock lock(&mutex_);
  cancelled_ = true;
  if (id_.has_value()) context_.engine->Abort(*id_);
  // Before the engine has it, Prepare ends the call; during a write, OnWritten does.
  if (id_.has_value() && !writing_) EndCancelled();
}

void GenerateCall::TakeEvents() {
  TokenStream::Batch batch = stream_->Take();
  if (batch.admitted) sink_->Admitted();
  if (batch.end.has_value()) end_ = *std::move(batch.end);
  writer_->Write(std::move(batch.tokens), batch.times, &messages_);
}

void GenerateCall::Pump() {
  while (!finished_ && !writing_) {
    if (cancelled_) {
      if (id_.has_value()) context_.engine->Abort(*id_);
      return EndCancelled();
    }
    if (end_.has_value() && !end_->ok()) return End(WithAdvice(*end_, context_.engine->snapshot()));
    if (messages_.empty()) {
      // The last token may have been taken, and written, before the end was there.
      if (end_.has_value()) End(absl::OkStatus());
      return;
    }
    message_ = std::move(messages_.front());
    messages_.pop_front();
    const bool last = end_.has_value() && messages_.empty();
    if (last) {
      finished_ = true;
      Unregister();
    }
    writing_ = sink_->Write(&message_, last);
  }
}

void GenerateCall::Unregister() {
  if (std::exchange(registered_, false)) context_.registry->Remove(request_id_);
}

void GenerateCall::End(const absl::Status& status) {
  if (std::exchange(finished_, true)) return;
  Unregister();
  sink_->Finish(status);
}

void GenerateCall::EndCancelled() {
  const bool late = options_.deadline <= absl::Now();
  End(late ? absl::DeadlineExceededError("the deadline passed before the answer was complete")
           : absl::CancelledError("the client cancelled the call"));
}

}  // namespace octavo
