// Which step comes next, and what the last ones answered (step.1).
#ifndef OCTAVO_WORKER_RUNTIME_STEP_LEDGER_H_
#define OCTAVO_WORKER_RUNTIME_STEP_LEDGER_H_

#include <array>

#include "absl/status/statusor.h"
#include "common/executor.h"
#include "common/ids.h"
#include "common/step.h"

namespace octavo {

// Of one step stream. Owned and called by the device thread.
class StepLedger {
 public:
  explicit StepLedger(Epoch epoch) : epoch_(epoch) {}

  // Whether `plan` is the step after those that have begun.
  bool IsNext(const StepPlan& plan) const {
    return plan.epoch == epoch_ && plan.step == begun_ + 1;
  }
  // nullptr: `plan` is the next step; compute it, and Record the results in order. Otherwise the
  // remembered result of a repeated step. FAILED_PRECONDITION for a foreign epoch, a gap, a step
  // older than the last two, and one that has begun and has no result yet.
  absl::StatusOr<const StepResult*> Admit(const StepPlan& plan);
  // REQUIRES: the result of the oldest step that was admitted and has none.
  void Record(const StepResult& result);

  Epoch epoch() const { return epoch_; }

 private:
  const Epoch epoch_;
  StepId begun_ = 0;
  StepId last_ = 0;                                   // with a result
  std::array<StepResult, kMaxStepsInFlight> recent_;  // at [step % size]
};

}  // namespace octavo

#endif  // OCTAVO_WORKER_RUNTIME_STEP_LEDGER_H_
