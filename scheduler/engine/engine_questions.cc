// EngineLoop: what other threads ask the scheduler between two steps.
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "scheduler/engine/engine_loop.h"

namespace octavo {

template <typename T>
absl::StatusOr<T> EngineLoop::Ask(std::function<T(Scheduler&)> question) {
  // Outlives an asker that has given up.
  struct Slot {
    absl::Notification answered;
    std::optional<T> value;
  };
  const auto slot = std::make_shared<Slot>();
  const bool queued =
      mailbox_.TryAsk({.ask =
                           [slot, question = std::move(question)](Scheduler* scheduler) {
                             if (scheduler != nullptr) slot->value = question(*scheduler);
                           },
                       .answered = std::shared_ptr<absl::Notification>(slot, &slot->answered)});
  if (!queued)
    return absl::ResourceExhaustedError(absl::StrCat(
        "the server stopped, or ", Mailbox::kMaxQuestions, " questions wait for the next step"));
  if (!slot->answered.WaitForNotificationWithTimeout(kAnswerTimeout))
    return absl::DeadlineExceededError(
        absl::StrCat("no step boundary within ", absl::FormatDuration(kAnswerTimeout)));
  if (!slot->value.has_value())
    return absl::UnavailableError("the workers were not ready yet, or the server stopped");
  return *std::move(slot->value);
}

absl::StatusOr<int64_t> EngineLoop::FlushPrefixCache() {
  return Ask<int64_t>([](Scheduler& scheduler) { return scheduler.FlushPrefixCache(); });
}

absl::StatusOr<std::vector<RequestReport>> EngineLoop::ReportRequests(size_t most) {
  return Ask<std::vector<RequestReport>>(
      [most](Scheduler& scheduler) { return scheduler.ReportRequests(most); });
}

absl::StatusOr<std::optional<WaitReport>> EngineLoop::ExplainWait(RequestId id) {
  return Ask<std::optional<WaitReport>>(
      [id](Scheduler& scheduler) { return scheduler.ExplainWait(id); });
}

absl::StatusOr<std::optional<std::vector<ChoiceTable>>> EngineLoop::ReportTables(RequestId id) {
  return Ask<std::optional<std::vector<ChoiceTable>>>(
      [id](Scheduler& scheduler) { return scheduler.ReportTables(id); });
}

}  // namespace octavo
