// Joins the answers of several ranks: a step is done when every rank has acknowledged it (step.5);
// what it sampled comes from rank 0.
#ifndef OCTAVO_SCHEDULER_ENGINE_RESULT_COLLECTOR_H_
#define OCTAVO_SCHEDULER_ENGINE_RESULT_COLLECTOR_H_

#include <deque>
#include <functional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/step.h"

namespace octavo {

// Thread-safe: each rank answers on a thread of its own executor.
class ResultCollector {
 public:
  using StepSink = std::function<void(StepResult)>;
  using LostSink = std::function<void(Epoch, absl::Status)>;

  // The sinks must not block; they are called under a lock. `on_lost` is called at most once per
  // epoch, and no step of that epoch after it.
  ResultCollector(int num_ranks, StepSink on_step, LostSink on_lost);

  // Forgets everything; answers must belong to `epoch`, with steps from 1.
  void Begin(Epoch epoch);
  void Answer(int rank, absl::StatusOr<StepResult> result);
  // Declares the epoch lost for another reason than an answer.
  void Fail(absl::Status why);

 private:
  void FailLocked(absl::Status why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const StepSink on_step_;
  const LostSink on_lost_;
  absl::Mutex mutex_;
  Epoch epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  bool failed_ ABSL_GUARDED_BY(mutex_) = true;            // before the first Begin
  std::vector<StepId> answered_ ABSL_GUARDED_BY(mutex_);  // last step of each rank
  StepId done_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<StepResult> of_rank_0_ ABSL_GUARDED_BY(mutex_);  // not done yet
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_ENGINE_RESULT_COLLECTOR_H_
