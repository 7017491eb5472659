#include "scheduler/engine/mailbox.h"

#include <utility>

namespace octavo {

std::optional<RequestId> Mailbox::TryAdd(AddCommand&& command) {
  absl::MutexLock lock(&mutex_);
  if (batch_.closed || batch_.adds.size() >= max_adds_) return std::nullopt;
  const RequestId id = next_id_++;
  command.request.id = id;
  batch_.adds.push_back(std::move(command));
  mail_ = true;
  return id;
}

void Mailbox::Abort(RequestId id) {
  absl::MutexLock lock(&mutex_);
  if (!aborting_.insert(id).second) return;
  batch_.aborts.push_back(id);
  mail_ = true;
}

bool Mailbox::TryAsk(Question question) {
  absl::MutexLock lock(&mutex_);
  if (batch_.closed || batch_.questions.size() >= kMaxQuestions) return false;
  batch_.questions.push_back(std::move(question));
  mail_ = true;
  return true;
}

void Mailbox::Result(StepResult result) {
  absl::MutexLock lock(&mutex_);
  batch_.results.push_back(std::move(result));
  mail_ = true;
}

void Mailbox::Ready(GroupReady ready) {
  absl::MutexLock lock(&mutex_);
  batch_.ready = std::move(ready);
  mail_ = true;
}

void Mailbox::Lost(GroupLost lost) {
  absl::MutexLock lock(&mutex_);
  batch_.lost = std::move(lost);
  mail_ = true;
}

void Mailbox::Refused(absl::Status why) {
  absl::MutexLock lock(&mutex_);
  batch_.refused = std::move(why);
  mail_ = true;
}

void Mailbox::Wake() {
  absl::MutexLock lock(&mutex_);
  mail_ = true;
}

void Mailbox::Close() {
  absl::MutexLock lock(&mutex_);
  batch_.closed = true;
  mail_ = true;
}

void Mailbox::Wait(absl::Duration timeout, Batch* batch) {
  batch->adds.clear();
  batch->aborts.clear();
  batch->questions.clear();
  batch->results.clear();
  absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(absl::Condition(this, &Mailbox::HasMail), timeout);
  batch->adds.swap(batch_.adds);
  batch->aborts.swap(batch_.aborts);
  batch->questions.swap(batch_.questions);
  batch->results.swap(batch_.results);
  batch->ready = std::exchange(batch_.ready, std::nullopt);
  batch->lost = std::exchange(batch_.lost, std::nullopt);
  batch->refused = std::exchange(batch_.refused, std::nullopt);
  batch->closed = batch_.closed;
  aborting_.clear();
  mail_ = false;
}

}  // namespace octavo
