// Copies blocks to the host and back beside the compute of steps.
#ifndef OCTAVO_WORKER_RUNTIME_SWAP_QUEUE_H_
#define OCTAVO_WORKER_RUNTIME_SWAP_QUEUE_H_

#include <deque>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "common/step.h"
#include "worker/kv/kv_pool.h"
#include "worker/runtime/device_thread.h"

namespace octavo {

// One copy thread, which takes swaps in the order in which they were begun. Swap-ins of a plan
// touch nothing that an unanswered step names, so they begin when the plan arrives; its swap-outs
// begin when it runs, since the step before may write to their sources.
class SwapQueue {
 public:
  // REQUIRES: `pool` outlives the queue.
  explicit SwapQueue(KvPool& pool) : pool_(pool) {}

  // Begins the swap-ins of the step after the last one begun; other steps, and plans that no worker
  // could execute, are left to the caller of FinishIns. Thread-safe; never waits for a copy.
  void BeginIns(const StepPlan& plan);
  // The seconds that the plan's swap-ins took, once they are complete. Device thread.
  absl::StatusOr<double> FinishIns(const StepPlan& plan);
  // The same for swap-outs. One plan's at a time. Device thread. REQUIRES: the plan was checked.
  void BeginOuts(const StepPlan& plan);
  absl::StatusOr<double> FinishOuts();

 private:
  struct Job {
    StepId step = 0;
    std::vector<BlockSwap> swaps;
    double seconds = 0;
    absl::Status status;
    absl::Notification done;
  };

  std::shared_ptr<Job> Begin(StepId step, const std::vector<BlockSwap>& swaps, bool out);
  static absl::StatusOr<double> Finish(const std::shared_ptr<Job>& job);

  KvPool& pool_;
  std::shared_ptr<Job> outs_;  // device thread only
  absl::Mutex mutex_;
  StepId begun_ ABSL_GUARDED_BY(mutex_) = 0;  // the last step whose swap-ins were looked at
  std::deque<std::shared_ptr<Job>> ins_ ABSL_GUARDED_BY(mutex_);  // at most one a step in flight
  DeviceThread copier_;  // last: its tasks use what is above
};

}  // namespace octavo

#endif  // OCTAVO_WORKER_RUNTIME_SWAP_QUEUE_H_
