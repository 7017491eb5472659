#include "scheduler/engine/engine_loop.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/check.h"
#include "common/log.h"

namespace octavo {
namespace {

double SecondsSince(absl::Time start) { return absl::ToDoubleSeconds(absl::Now() - start); }

absl::Status NotReady(EngineState state, const absl::Status& failure) {
  switch (state) {
    case EngineState::kConnecting:
      return absl::UnavailableError("the workers are not connected yet");
    case EngineState::kLoading:
      return absl::UnavailableError("the model is still loading");
    case EngineState::kRecovering:
      return absl::UnavailableError("a worker was lost; waiting for it to come back");
    case EngineState::kFailed:
      return absl::UnavailableError(absl::StrCat("the engine cannot serve: ", failure.message()));
    case EngineState::kReady:
      break;
  }
  return absl::OkStatus();
}

}  // namespace

EngineLoop::EngineLoop(const EngineOptions& options,
                       std::vector<std::unique_ptr<Executor>> executors)
    : options_(options),
      mailbox_(static_cast<size_t>(options.scheduler.max_queued_requests)),
      group_(
          std::move(executors), options.group,
          [this](StepResult result) { mailbox_.Result(std::move(result)); },
          [this](Epoch epoch, absl::Status why) {
            mailbox_.Lost({epoch, std::move(why)});
          }),
      streams_(&dispatcher_, &current_.latencies) {
  current_.prefix_cache = options.scheduler.prefix_cache;
}

EngineLoop::~EngineLoop() { Stop(); }

void EngineLoop::Start() {
  OCTAVO_CHECK(!thread_.joinable(), "started twice");
  bring_up_ = std::thread([this] { BringUpFirst(); });
  thread_ = std::thread([this] { Run(); });
}

absl::StatusOr<RequestId> EngineLoop::Submit(Request request, std::shared_ptr<TokenStream> stream) {
  absl::MutexLock lock(&mutex_);
  if (stopped_ || draining_)
    return absl::UnavailableError("the server is draining and takes no new requests");
  if (absl::Status state = NotReady(published_.state, published_.failure); !state.ok())
    return state;
  request.arrival = absl::Now();
  const std::optional<RequestId> id =
      mailbox_.TryAdd({.request = std::move(request), .stream = std::move(stream)});
  if (!id.has_value())
    return absl::ResourceExhaustedError(
        absl::StrCat(options_.scheduler.max_queued_requests,
                     " requests wait for the next step; that is the limit (max-queued-requests)"));
  ++accepted_;
  return *id;
}

void EngineLoop::Drain() {
  absl::MutexLock lock(&mutex_);
  draining_ = true;
}

bool EngineLoop::AwaitDrained(absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  const auto drained = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return draining_ && accepted_ == ended_;
  };
  return mutex_.AwaitWithTimeout(absl::Condition(&drained), timeout);
}

void EngineLoop::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    if (std::exchange(stopped_, true)) return;
  }
  mailbox_.Close();
  if (thread_.joinable()) thread_.join();
  group_.Cancel();
  if (bring_up_.joinable()) bring_up_.join();
  // The last attempt may have opened streams after Cancel closed those that were open.
  group_.StopStreams();
  dispatcher_.Stop();
}

EngineSnapshot EngineLoop::snapshot() const {
  EngineSnapshot snapshot;
  {
    absl::MutexLock lock(&mutex_);
    snapshot = published_;
    snapshot.draining = draining_;
    snapshot.live_streams = accepted_ - ended_;
  }
  if (snapshot.state == EngineState::kConnecting && group_.loading())
    snapshot.state = EngineState::kLoading;
  snapshot.workers = group_.workers();
  return snapshot;
}

EngineState EngineLoop::AwaitChange(EngineState seen, absl::Duration timeout) const {
  absl::MutexLock lock(&mutex_);
  const auto changed = [this, seen]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return published_.state != seen;
  };
  mutex_.AwaitWithTimeout(absl::Condition(&changed), timeout);
  return published_.state;
}

void EngineLoop::Run() {
  Publish();
  while (true) {
    mailbox_.Wait(WaitTime(), &mail_);
    if (mail_.closed) break;
    if (mail_.refused.has_value()) {
      current_.failure = *std::move(mail_.refused);
      current_.state = EngineState::kFailed;
    }
    if (mail_.ready.has_value()) OnReady(*std::move(mail_.ready));
    for (const StepResult& result : mail_.results) OnResult(result);
    if (mail_.lost.has_value()) OnLost(*mail_.lost);
    CheckStepTimeout();
    for (AddCommand& command : mail_.adds) OnAdd(std::move(command));
    if (scheduler_ != nullptr) {
      for (const RequestId id : mail_.aborts) scheduler_->Abort(id);
      ScheduleSteps();
      DeliverAborts();
      NotePreemptions();
    }
    for (const Question& question : mail_.questions) question.ask(scheduler_.get());
    Publish();
    for (const Question& question : mail_.questions) question.answered->Notify();
    streams_.NotifyTouched();
  }
  for (const Question& question : mail_.questions) {
    question.ask(nullptr);
    question.answered->Notify();
  }
  for (AddCommand& command : mail_.adds)
    streams_.Refuse(command.stream, absl::UnavailableError("the server stopped"));
  streams_.EndAll(absl::UnavailableError("the server stopped"));
  Publish();
  streams_.NotifyTouched();
}

absl::Duration EngineLoop::WaitTime() const {
  if (in_flight_.empty()) return absl::InfiniteDuration();
  return in_flight_.front().oldest_since + options_.step_timeout - absl::Now();
}

void EngineLoop::OnReady(GroupReady ready) {
  if (ready.scheduler != nullptr) {
    scheduler_ = std::move(ready.scheduler);
    current_.capacity.geometry = ready.geometry;
    current_.capacity.max_model_len = options_.scheduler.max_model_len;
  }
  if (ready.epoch != scheduler_->epoch()) return;
  OCTAVO_LOG(kInfo, "workers ready epoch=", ready.epoch, " workers=", group_.size());
  current_.state = EngineState::kReady;
}

void EngineLoop::OnLost(const GroupLost& lost) {
  if (current_.state != EngineState::kReady || lost.epoch != scheduler_->epoch()) return;
  ++current_.recoveries;
  OCTAVO_LOG(kWarning, "workers lost epoch=", lost.epoch, " running=", scheduler_->stats().running,
             " why=\"", lost.why.ToString(), "\"; streams wait until they are back");
  in_flight_.clear();
  scheduler_->ResetWorkers();
  current_.state = EngineState::kRecovering;
  StartBringUp(scheduler_->epoch());
}

void EngineLoop::OnAdd(AddCommand command) {
  if (current_.state != EngineState::kReady) {
    streams_.Refuse(command.stream, NotReady(current_.state, current_.failure));
    return;
  }
  const RequestId id = command.request.id;
  const absl::Time arrival = command.request.arrival;
  const int32_t choices = command.request.n;
  if (absl::Status added = scheduler_->Add(std::move(command.request)); !added.ok()) {
    streams_.Refuse(command.stream, std::move(added));
    return;
  }
  traffic_.Arrived(arrival);
  streams_.Admit(id, std::move(command.stream), arrival, choices);
}

void EngineLoop::ScheduleSteps() {
  while (current_.state == EngineState::kReady && in_flight_.size() < kMaxStepsInFlight) {
    const absl::Time now = absl::Now();
    const std::optional<StepPlan> plan = scheduler_->Schedule(now);
    if (!plan.has_value()) return;
    in_flight_.push_back({plan->step, now, SecondsSince(now)});
    group_.Submit(*plan);
  }
}

void EngineLoop::CheckStepTimeout() {
  if (in_flight_.empty() || absl::Now() < in_flight_.front().oldest_since + options_.step_timeout)
    return;
  group_.DeclareLost(absl::DeadlineExceededError(
      absl::StrCat("step ", in_flight_.front().step, " was not answered within ",
                   absl::FormatDuration(options_.step_timeout))));
}

void EngineLoop::Publish() {
  if (scheduler_ != nullptr) {
    const absl::Time now = absl::Now();
    current_.level_seconds.Add(current_.stats, absl::ToDoubleSeconds(now - levels_since_));
    levels_since_ = now;
    current_.stats = scheduler_->stats();
    current_.epoch = scheduler_->epoch();
    CapacityReport& capacity = current_.capacity;
    capacity.num_blocks = current_.stats.num_blocks;
    capacity.mean_is_measured = current_.stats.mean_length > 0;
    capacity.mean_tokens =
        capacity.mean_is_measured ? current_.stats.mean_length : options_.expected_mean_tokens;
  }
  absl::MutexLock lock(&mutex_);
  published_ = current_;
  ended_ = streams_.ended();
}

}  // namespace octavo
