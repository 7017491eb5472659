#include "scheduler/transport/generate_reactor.h"

#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/rpc/error_details.h"
#include "common/rpc/grpc_status.h"
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

GenerateReactor* GenerateReactor::Start(const GenerateContext& context,
                                        grpc::CallbackServerContext* call,
                                        const v1::GenerateRequest* request) {
  std::shared_ptr<GenerateReactor> reactor(new GenerateReactor(context, call, request));
  reactor->self_ = reactor;
  if (!context.tasks->TryRun([reactor] { reactor->Prepare(); })) {
    absl::MutexLock lock(&reactor->mutex_);
    reactor->End(WithAdvice(absl::ResourceExhaustedError("too many prompts wait to be tokenised"),
                            context.engine->snapshot()));
  }
  return reactor.get();
}

GenerateReactor::GenerateReactor(const GenerateContext& context, grpc::CallbackServerContext* call,
                                 const v1::GenerateRequest* request)
    : context_(context),
      call_(call),
      request_(request),
      request_id_(request->request_id().empty() ? absl::StrCat("gen-", absl::Hex(RandomBits()))
                                                : request->request_id()) {}

GenerateReactor::~GenerateReactor() { Unregister(); }

void GenerateReactor::Unregister() {
  if (std::exchange(registered_, false)) context_.registry->Remove(request_id_);
}

void GenerateReactor::Prepare() {
  // Nobody else ends the call before the engine has the request, so `request_` stays.
  absl::StatusOr<Request> request = [this]() -> absl::StatusOr<Request> {
    OCTAVO_RETURN_IF_ERROR(CheckServed(*request_));
    return TranslateRequest(*request_, *context_.model, RandomBits());
  }();

  absl::MutexLock lock(&mutex_);
  if (cancelled_) return EndCancelled();
  if (!request.ok()) return End(request.status());
  const std::weak_ptr<GenerateReactor> weak = weak_from_this();
  registered_ = context_.registry->Add(request_id_, [weak] {
    if (const auto reactor = weak.lock()) reactor->AbortRequest();
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
    if (const auto reactor = weak.lock()) reactor->OnEvents();
  };
  stream_ = std::make_shared<TokenStream>(request->max_tokens, request->n, on_ready, scores);
  const absl::StatusOr<RequestId> id = context_.engine->Submit(*std::move(request), stream_);
  if (!id.ok()) return End(WithAdvice(id.status(), context_.engine->snapshot()));
  id_ = *id;
  context_.registry->Bind(request_id_, *id);
  if (aborted_) context_.engine->Abort(*id_);
}

void GenerateReactor::AbortRequest() {
  absl::MutexLock lock(&mutex_);
  aborted_ = true;
  if (id_.has_value()) context_.engine->Abort(*id_);
}

void GenerateReactor::OnEvents() {
  absl::MutexLock lock(&mutex_);
  if (!writing_) Pump();
}

void GenerateReactor::OnWriteDone(bool ok) {
  absl::MutexLock lock(&mutex_);
  writing_ = false;
  if (!ok) cancelled_ = true;
  Pump();
}

void GenerateReactor::OnCancel() {
  absl::MutexLock lock(&mutex_);
  cancelled_ = true;
  if (id_.has_value()) context_.engine->Abort(*id_);
  // Before the engine has it, Prepare ends the call; during a write, OnWriteDone does.
  if (id_.has_value() && !writing_) EndCancelled();
}

void GenerateReactor::OnDone() { self_.reset(); }

void GenerateReactor::Pump() {
  if (finished_) return;
  if (cancelled_) {
    if (id_.has_value()) context_.engine->Abort(*id_);
    return EndCancelled();
  }
  if (messages_.empty()) {
    TokenStream::Batch batch = stream_->Take();
    if (batch.admitted) StartSendInitialMetadata();
    if (batch.end.has_value() && !batch.end->ok())
      return End(WithAdvice(*batch.end, context_.engine->snapshot()));
    ended_ = batch.end.has_value();
    writer_->Write(std::move(batch.tokens), batch.times, &messages_);
  }
  if (messages_.empty()) {
    // The last token may have been taken, and written, before the end was there.
    if (ended_) End(absl::OkStatus());
    return;
  }
  message_ = std::move(messages_.front());
  messages_.pop_front();
  if (ended_ && messages_.empty()) {
    finished_ = true;
    Unregister();
    StartWriteAndFinish(&message_, grpc::WriteOptions(), grpc::Status::OK);
    return;
  }
  writing_ = true;
  StartWrite(&message_);
}

void GenerateReactor::End(const absl::Status& status) {
  if (std::exchange(finished_, true)) return;
  Unregister();
  Finish(FinishStatus(status, call_));
}

void GenerateReactor::EndCancelled() {
  const bool late = absl::FromChrono(call_->deadline()) <= absl::Now();
  End(late ? absl::DeadlineExceededError("the deadline passed before the answer was complete")
           : absl::CancelledError("the client cancelled the call"));
}

}  // namespace octavo
