// Everything that other threads tell the engine thread, in one place that it can sleep on.
#ifndef OCTAVO_SCHEDULER_ENGINE_MAILBOX_H_
#define OCTAVO_SCHEDULER_ENGINE_MAILBOX_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "common/cache_geometry.h"
#include "common/ids.h"
#include "common/step.h"
#include "scheduler/core/request.h"
#include "scheduler/core/scheduler.h"
#include "scheduler/engine/token_stream.h"

namespace octavo {

struct AddCommand {
  Request request;
  std::shared_ptr<TokenStream> stream;
};

// What somebody wants to know of the scheduler, or have done to it, between two steps.
struct Question {
  std::function<void(Scheduler*)> ask;  // gets nullptr when there is none yet or any more
  std::shared_ptr<absl::Notification> answered;
};

// The workers are configured for `epoch` and wait for steps.
struct GroupReady {
  Epoch epoch = 0;
  // Set the first time.
  std::unique_ptr<Scheduler> scheduler;
  CacheGeometry geometry;
};

// Steps of `epoch` will not be answered any more.
struct GroupLost {
  Epoch epoch = 0;
  absl::Status why;
};

// Thread-safe; one reader. Bounds: adds by `max_adds`, aborts by the requests that are alive,
// results by kMaxStepsInFlight, group events by one of each kind, questions by kMaxQuestions.
class Mailbox {
 public:
  static constexpr size_t kMaxQuestions = 64;

  explicit Mailbox(size_t max_adds) : max_adds_(max_adds) {}

  struct Batch {
    std::vector<AddCommand> adds;
    std::vector<RequestId> aborts;
    std::vector<Question> questions;
    std::vector<StepResult> results;
    std::optional<GroupReady> ready;
    std::optional<GroupLost> lost;
    std::optional<absl::Status> refused;  // the workers can never serve: give up
    bool closed = false;
  };

  // Assigns the next request id, so that ids increase in the order of arrival. nullopt when full or
  // closed; `command` is then untouched.
  std::optional<RequestId> TryAdd(AddCommand&& command);
  void Abort(RequestId id);
  // False when full or closed.
  bool TryAsk(Question question);
  void Result(StepResult result);
  void Ready(GroupReady ready);
  void Lost(GroupLost lost);
  void Refused(absl::Status why);
  // Wakes the reader without a message.
  void Wake();
  void Close();

  // Waits until something is there, at most `timeout`, and moves all of it into `batch`, whose
  // vectors are reused.
  void Wait(absl::Duration timeout, Batch* batch);

 private:
  bool HasMail() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return mail_; }

  const size_t max_adds_;
  absl::Mutex mutex_;
  bool mail_ ABSL_GUARDED_BY(mutex_) = false;
  RequestId next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  absl::flat_hash_set<RequestId> aborting_ ABSL_GUARDED_BY(mutex_);  // those in batch_.aborts
  Batch batch_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_ENGINE_MAILBOX_H_
