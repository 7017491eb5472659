// The workers of one engine as one: start-up, steps to every rank, fencing and recovery.
#ifndef OCTAVO_SCHEDULER_ENGINE_WORKER_GROUP_H_
#define OCTAVO_SCHEDULER_ENGINE_WORKER_GROUP_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/executor.h"
#include "scheduler/engine/engine_snapshot.h"
#include "scheduler/engine/result_collector.h"

namespace octavo {

// What every worker must be, as the scheduler's own copy of the checkpoint says.
struct ExpectedModel {
  std::string digest;
  KvShape kv_shape;  // of the whole model
  int32_t vocab_size = 0;
};

struct WorkerGroupOptions {
  ExpectedModel model;
  WorkerConfig config;              // epoch and num_blocks are not read
  int64_t num_blocks_override = 0;  // > 0: this many blocks, whatever its flags leave
  absl::Duration first_retry = absl::Milliseconds(200);
  absl::Duration longest_retry = absl::Seconds(1);
};

// How the group's blocks came about.
struct GroupCapacity {
  int64_t num_blocks = 0;       // smallest over ranks, or the override
  int64_t num_swap_blocks = 0;  // host blocks for swapping, smallest over ranks
  KvShape kv_shape;             // of rank 0, which holds as much as any
  std::string reason;           // of the smallest rank
};

// Connect, Configure and StopStreams are called from one thread at a time; Submit by the engine
// thread between Configure and StopStreams; the rest from any thread.
class WorkerGroup {
 public:
  WorkerGroup(std::vector<std::unique_ptr<Executor>> executors, const WorkerGroupOptions& options,
              ResultCollector::StepSink on_step, ResultCollector::LostSink on_lost);
  ~WorkerGroup();
  WorkerGroup(const WorkerGroup&) = delete;
  WorkerGroup& operator=(const WorkerGroup&) = delete;

  // Waits for every worker, checks that it is the right one, has it load its weights and asks how
  // many blocks fit. Tries again, with logs and growing pauses, for as long as workers cannot be
  // reached. FAILED_PRECONDITION for a worker of another model, CANCELLED after Cancel, otherwise
  // the first error that trying again cannot cure.
  absl::StatusOr<GroupCapacity> Connect();
  // As Connect, for workers that have served before: nothing but Cancel ends the trying, since the
  // right worker may come back, and numeric paths must be what they were (det.2).
  absl::Status Reconnect();
  // Allocates blocks and opens the step streams. An error means that the group must be connected
  // again.
  absl::Status Configure(Epoch epoch, int64_t num_blocks, int64_t num_swap_blocks);

  // Sends the plan to every rank. Failures arrive through on_lost.
  void Submit(const StepPlan& plan);
  // Declares the epoch lost: on_lost is called unless it was already.
  void DeclareLost(absl::Status why) { collector_.Fail(std::move(why)); }
  // Ends the streams; no sink is called after this returns.
  void StopStreams();
  // Waits options.longest_retry; false when cancelled.
  bool Pause() { return PauseFor(options_.longest_retry); }
  // The same when `error` may pass by itself; false at once for others.
  bool PauseAfter(const absl::Status& error);
  // Makes Connect and Reconnect return CANCELLED as soon as they can.
  void Cancel();

  int size() const { return static_cast<int>(executors_.size()); }
  bool loading() const;  // every worker answers; some still read weights
  std::vector<WorkerStatus> workers() const;

 private:
  struct Rank {
    WorkerStatus status;
    RecentValues steps;
    int logged_tenths = 0;  // of its load
  };

  absl::StatusOr<GroupCapacity> TryConnect(bool again);
  absl::Status DescribeRank(int rank, bool again, WorkerDescription* description);
  absl::Status CheckModel(int rank, const WorkerDescription& worker) const;
  absl::Status LoadAll();
  // On all ranks at once: they wait for each other.
  absl::Status ConfigureAll(const WorkerConfig& config);
  // As Pause, for the given time.
  bool PauseFor(absl::Duration duration);
  void NoteProgress(int rank, const LoadProgress& progress);
  void NoteStep(int rank, const StepResult& result);
  bool cancelled() const;

  const WorkerGroupOptions options_;
  const std::vector<std::unique_ptr<Executor>> executors_;
  ResultCollector collector_;
  std::vector<std::string> communicator_addresses_;  // [rank] of the last queries

  absl::Mutex streams_mutex_;  // held while streams start and stop
  mutable absl::Mutex mutex_ ABSL_ACQUIRED_AFTER(streams_mutex_);
  std::vector<Rank> ranks_ ABSL_GUARDED_BY(mutex_);
  bool loading_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_ENGINE_WORKER_GROUP_H_
