// EngineLoop: what a step's result, aborts and preemptions mean for the requests' streams.
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/log.h"
#include "scheduler/engine/engine_loop.h"

namespace octavo {

void EngineLoop::OnResult(const StepResult& result) {
  if (scheduler_ == nullptr || result.epoch != scheduler_->epoch() || in_flight_.empty()) return;
  if (const absl::Status valid = scheduler_->CheckResult(result); !valid.ok()) {
    group_.DeclareLost(
        absl::InternalError(absl::StrCat("a worker answered wrongly: ", valid.message())));
    return;
  }
  const absl::Time start = absl::Now();
  std::vector<TokenEvent> events = scheduler_->Commit(result);
  const double seconds =
      in_flight_.front().schedule_seconds + absl::ToDoubleSeconds(absl::Now() - start);
  in_flight_.pop_front();
  if (!in_flight_.empty()) in_flight_.front().oldest_since = start;
  current_.latencies.schedule.Observe(seconds);
  current_.latencies.recent_schedule.Add(seconds);
  current_.latencies.worker.Observe(result.compute_seconds);
  for (TokenEvent& event : events) {
    if (event.request_ended) traffic_.Ended(event.prompt_tokens, event.generated_tokens);
    streams_.Deliver(std::move(event), start);
  }
}

void EngineLoop::DeliverAborts() {
  const absl::Time now = absl::Now();
  for (TokenEvent& event : scheduler_->TakeAbortEvents()) {
    if (event.request_ended) traffic_.Ended(event.prompt_tokens, event.generated_tokens);
    streams_.Deliver(std::move(event), now);
  }
}

void EngineLoop::NotePreemptions() {
  const absl::Time now = absl::Now();
  for (const PreemptionEvent& event : scheduler_->TakePreemptions()) {
    OCTAVO_LOG(kInfo, PreemptionLine(event));
    if (event.reason == PreemptionReason::kNoFreeBlocks) {
      const auto advice =
          preemption_watch_.Record(now, event, scheduler_->stats().running, current_.capacity);
      if (advice.has_value()) OCTAVO_LOG(kWarning, *advice);
      continue;
    }
    if (streams_.NoteReset(event.request) < options_.max_resets_without_token) continue;
    ++current_.failed_requests;
    streams_.FailOnAbort(
        event.request, absl::InternalError(
                           absl::StrCat("the workers were lost ", options_.max_resets_without_token,
                                        " times in a row while computing this request")));
    scheduler_->Abort(event.request);
  }
  DeliverAborts();
}

}  // namespace octavo
