// What one request's client has not read yet: the engine's side writes, the transport's side reads.
#ifndef OCTAVO_SCHEDULER_ENGINE_TOKEN_STREAM_H_
#define OCTAVO_SCHEDULER_ENGINE_TOKEN_STREAM_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "scheduler/core/request.h"

namespace octavo {

struct StreamTimes {
  absl::Time arrival;
  absl::Time first_scheduled = absl::InfiniteFuture();
  absl::Time first_token = absl::InfiniteFuture();
  absl::Time last_token = absl::InfiniteFuture();
};

// Thread-safe. Holds at most max_tokens + 1 events a choice, and max_scores events with scores of
// the prompt, so a client that does not read costs what its request was allowed to produce and
// never makes the engine wait.
class TokenStream {
 public:
  // `on_ready` is called on the dispatcher's thread (edge.1) after something arrived, never under a
  // lock, and never again once the end was taken.
  TokenStream(int32_t max_tokens, int32_t choices, std::function<void()> on_ready,
              int32_t max_scores = 0);

  struct Batch {
    bool admitted = false;           // reported once: the queue accepted the request
    std::vector<TokenEvent> tokens;  // in order per choice
    // After the last token. OK: the last event of each choice has `finish`; otherwise why the
    // request was refused or ended.
    std::optional<absl::Status> end;
    StreamTimes times;
  };
  // Everything that arrived since the last call.
  Batch Take();

  // Of the engine thread.
  void Admit();
  void Push(TokenEvent event);
  // The last call. Later ones change nothing.
  void End(absl::Status status);
  void SetTimes(const StreamTimes& times);

  // Of the dispatcher. MarkQueued: false when a Notify is due already.
  bool MarkQueued();
  void Notify();

 private:
  const size_t capacity_;
  absl::Mutex mutex_;
  Batch pending_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> on_ready_ ABSL_GUARDED_BY(mutex_);
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool queued_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_ENGINE_TOKEN_STREAM_H_
