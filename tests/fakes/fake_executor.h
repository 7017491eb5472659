// A worker behind the Executor port, on a thread of its own: a ShadowWorker that can be late,
// break, fall silent, or not be there yet.
#ifndef OCTAVO_TESTS_FAKES_FAKE_EXECUTOR_H_
#define OCTAVO_TESTS_FAKES_FAKE_EXECUTOR_H_

#include <deque>
#include <memory>
#include <optional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/executor.h"
#include "tests/fakes/shadow_worker.h"

namespace octavo {

// What a test does to a fake worker while an engine owns it. Thread-safe; outlives the executor.
class FakeWorkerControl {
 public:
  WorkerDescription description;  // set before the executor is used
  int64_t fitting_blocks = 100;   // what a query answers
  int64_t swap_blocks = 0;        // the same, on the host
  int64_t load_bytes = 1000;

  void SetUnreachable(bool unreachable) { Set(&unreachable_, unreachable); }
  // Answers nothing while held; steps wait.
  void SetHeld(bool held) { Set(&held_, held); }
  void SetStepTime(absl::Duration time) { Set(&step_time_, time); }
  // After `steps` more answers the stream fails, `times` times (each time after as many steps).
  void FailAfter(int steps, int times = 1) {
    absl::MutexLock lock(&mutex_);
    fail_after_ = countdown_ = steps;
    failures_left_ = times;
  }
  // After `steps` more answers one step is never answered.
  void DropAfter(int steps) {
    absl::MutexLock lock(&mutex_);
    drop_after_ = steps;
  }
  // Every step from now on is answered with one sample too many.
  void SetLying(bool lying) { Set(&lying_, lying); }

  int steps() const { return Get(&steps_); }            // answered
  int configures() const { return Get(&configures_); }  // with blocks
  int describes() const { return Get(&describes_); }
  WorkerConfig config() const { return Get(&config_); }  // the last one with blocks

 private:
  friend class FakeExecutor;

  template <typename T>
  void Set(T* field, T value) {
    absl::MutexLock lock(&mutex_);
    *field = value;
  }
  template <typename T>
  T Get(const T* field) const {
    absl::MutexLock lock(&mutex_);
    return *field;
  }

  mutable absl::Mutex mutex_;
  bool unreachable_ = false;
  bool held_ = false;
  bool lying_ = false;
  absl::Duration step_time_;
  int fail_after_ = 0;
  int countdown_ = 0;
  int failures_left_ = 0;
  int drop_after_ = -1;
  int steps_ = 0;
  int configures_ = 0;
  int describes_ = 0;
  WorkerConfig config_;
};

// A description that fits the model a test pretends to serve.
WorkerDescription FakeDescription();

class FakeExecutor : public Executor {
 public:
  explicit FakeExecutor(std::shared_ptr<FakeWorkerControl> control);
  ~FakeExecutor() override;

  absl::StatusOr<WorkerDescription> Describe() override;
  absl::Status Load(const ProgressSink& progress) override;
  absl::StatusOr<WorkerCapacity> Configure(const WorkerConfig& config) override;
  absl::Status Start(ResultSink sink) override;
  absl::Status Submit(const StepPlan& plan) override;
  void Stop() override;

 private:
  enum class Fate { kAnswer, kFail, kDrop, kLie };

  void Run();
  // Waits until the step may be answered; decides how.
  Fate Await();
  bool Due() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || waiting_ > 0; }

  const std::shared_ptr<FakeWorkerControl> control_;
  absl::Mutex mutex_;
  std::optional<ShadowWorker> worker_ ABSL_GUARDED_BY(mutex_);
  ResultSink sink_ ABSL_GUARDED_BY(mutex_);
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;  // plans submitted and not computed
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status broken_ ABSL_GUARDED_BY(mutex_);  // a plan broke a rule: answered in its place
  std::thread thread_;
};

}  // namespace octavo

#endif  // OCTAVO_TESTS_FAKES_FAKE_EXECUTOR_H_
