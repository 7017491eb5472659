#include "scheduler/engine/token_stream.h"

#include <utility>

#include "common/check.h"

namespace octavo {

TokenStream::TokenStream(int32_t max_tokens, int32_t choices, std::function<void()> on_ready,
                         int32_t max_scores)
    : capacity_((static_cast<size_t>(max_tokens) + 1) * static_cast<size_t>(choices) +
                static_cast<size_t>(max_scores)),
      on_ready_(std::move(on_ready)) {}

TokenStream::Batch TokenStream::Take() {
  // A callback may own what it calls: dropping it here could otherwise end the caller under our
  // lock.
  std::function<void()> dropped;
  Batch batch;
  absl::MutexLock lock(&mutex_);
  batch.admitted = std::exchange(pending_.admitted, false);
  batch.tokens = std::exchange(pending_.tokens, {});
  batch.end = std::exchange(pending_.end, std::nullopt);
  batch.times = pending_.times;
  if (batch.end.has_value()) dropped = std::exchange(on_ready_, nullptr);
  return batch;
}

void TokenStream::Admit() {
  absl::MutexLock lock(&mutex_);
  pending_.admitted = true;
}

void TokenStream::Push(TokenEvent event) {
  absl::MutexLock lock(&mutex_);
  if (ended_) return;
  OCTAVO_CHECK(pending_.tokens.size() < capacity_, "request=", event.request);
  pending_.tokens.push_back(std::move(event));
}

void TokenStream::End(absl::Status status) {
  absl::MutexLock lock(&mutex_);
  if (std::exchange(ended_, true)) return;
  pending_.end = std::move(status);
}

void TokenStream::SetTimes(const StreamTimes& times) {
  absl::MutexLock lock(&mutex_);
  pending_.times = times;
}

bool TokenStream::MarkQueued() {
  absl::MutexLock lock(&mutex_);
  return !std::exchange(queued_, true);
}

void TokenStream::Notify() {
  std::function<void()> ready;
  {
    absl::MutexLock lock(&mutex_);
    queued_ = false;
    ready = on_ready_;
  }
  if (ready) ready();
}

}  // namespace octavo
