// The thread that owns the Scheduler: drains commands at step boundaries, keeps up to two steps in
// flight, turns results into events of the requests' streams, and survives the loss of workers.
#ifndef OCTAVO_SCHEDULER_ENGINE_ENGINE_LOOP_H_
#define OCTAVO_SCHEDULER_ENGINE_ENGINE_LOOP_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/executor.h"
#include "scheduler/core/request.h"
#include "scheduler/core/request_report.h"
#include "scheduler/core/scheduler.h"
#include "scheduler/core/scheduler_config.h"
#include "scheduler/engine/dispatcher.h"
#include "scheduler/engine/engine_snapshot.h"
#include "scheduler/engine/mailbox.h"
#include "scheduler/engine/preemption_watch.h"
#include "scheduler/engine/stream_table.h"
#include "scheduler/engine/token_stream.h"
#include "scheduler/engine/traffic_log.h"
#include "scheduler/engine/worker_group.h"

namespace octavo {

struct EngineOptions {
  SchedulerConfig scheduler;  // num_blocks is filled in with what the workers have
  WorkerGroupOptions group;
  int32_t expected_mean_tokens = 512;
  // A step unanswered for this long counts as the loss of its workers.
  absl::Duration step_timeout = absl::Minutes(5);
  // A request whose steps lost the workers this often in a row, without one token in between, is
  // ended: it may be what kills them.
  int max_resets_without_token = 5;
};

// Public methods are thread-safe. Threads: the engine's, the dispatcher's, and one that connects
// workers while the engine goes on answering commands.
class EngineLoop {
 public:
  EngineLoop(const EngineOptions& options, std::vector<std::unique_ptr<Executor>> executors);
  ~EngineLoop();  // Stop
  EngineLoop(const EngineLoop&) = delete;
  EngineLoop& operator=(const EngineLoop&) = delete;

  void Start();

  // Queues the request; its id and arrival are set here. What the core says to it comes through
  // `stream`: admitted, or the end. UNAVAILABLE unless ready and not draining, RESOURCE_EXHAUSTED
  // when more wait for the next step boundary than --max-queued-requests allows; then `stream` is
  // not used. REQUIRES: `stream` is made for request.max_tokens and request.n.
  absl::StatusOr<RequestId> Submit(Request request, std::shared_ptr<TokenStream> stream);
  // Ends the request at the next step boundary; its stream gets the end. Unknown ids are fine.
  void Abort(RequestId id) { mailbox_.Abort(id); }

  // Answered on the engine thread between two steps while the caller waits, a moment as a rule and
  // at most kAnswerTimeout. UNAVAILABLE before the workers were ready and after Stop,
  // RESOURCE_EXHAUSTED when too many ask. The snapshot shows what they changed.
  // (engine_questions.cc)
  static constexpr absl::Duration kAnswerTimeout = absl::Seconds(5);
  absl::StatusOr<int64_t> FlushPrefixCache();
  absl::StatusOr<std::vector<RequestReport>> ReportRequests(size_t most);
  absl::StatusOr<std::optional<WaitReport>> ExplainWait(RequestId id);
  absl::StatusOr<std::optional<std::vector<ChoiceTable>>> ReportTables(RequestId id);

  // From now on Submit refuses.
  void Drain();
  // True once draining and every accepted request has ended; false when `timeout` passed first.
  bool AwaitDrained(absl::Duration timeout);
  // Ends all streams with UNAVAILABLE and joins the threads. Safe to call twice.
  void Stop();

  const EngineOptions& options() const { return options_; }
  EngineSnapshot snapshot() const;
  TrafficReport traffic() const { return traffic_.report(); }
  // Waits until the engine's state is another than `seen`, at most `timeout`. Returns the state.
  EngineState AwaitChange(EngineState seen, absl::Duration timeout) const;

 private:
  struct InFlight {
    StepId step = 0;
    absl::Time oldest_since;  // when it was submitted, or the step before it was answered
    double schedule_seconds = 0;
  };

  template <typename T>
  absl::StatusOr<T> Ask(std::function<T(Scheduler&)> question);

  void Run();
  void OnReady(GroupReady ready);
  void OnLost(const GroupLost& lost);
  void OnAdd(AddCommand command);
  void ScheduleSteps();
  void CheckStepTimeout();
  void Publish();
  absl::Duration WaitTime() const;

  // engine_delivery.cc
  void OnResult(const StepResult& result);
  void DeliverAborts();
  void NotePreemptions();

  // engine_bring_up.cc. The first two run on the bring-up thread.
  void BringUpFirst();
  void BringUpAgain(Epoch epoch, int64_t num_blocks, int64_t num_swap_blocks);
  void StartBringUp(Epoch epoch);

  const EngineOptions options_;
  Mailbox mailbox_;
  Dispatcher dispatcher_;
  WorkerGroup group_;
  TrafficLog traffic_;

  // Of the engine thread.
  EngineSnapshot current_;   // published at step boundaries
  absl::Time levels_since_;  // when the levels in current_ became what they are
  StreamTable streams_;
  std::unique_ptr<Scheduler> scheduler_;
  std::deque<InFlight> in_flight_;
  PreemptionWatch preemption_watch_;
  Mailbox::Batch mail_;

  mutable absl::Mutex mutex_;
  EngineSnapshot published_ ABSL_GUARDED_BY(mutex_);
  uint64_t accepted_ ABSL_GUARDED_BY(mutex_) = 0;  // requests that Submit queued
  uint64_t ended_ ABSL_GUARDED_BY(mutex_) = 0;     // of those
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread bring_up_;  // started by the engine thread; joined by it and by Stop
  std::thread thread_;
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_ENGINE_ENGINE_LOOP_H_
