#include "worker/runtime/step_ledger.h"

#include "absl/strings/str_cat.h"
#include "common/check.h"

namespace octavo {

absl::StatusOr<const StepResult*> StepLedger::Admit(const StepPlan& plan) {
  if (plan.epoch != epoch_)
    return absl::FailedPreconditionError(absl::StrCat(
        "step ", plan.step, " is of epoch ", plan.epoch, "; this stream is of epoch ", epoch_));
  if (IsNext(plan)) {
    begun_ = plan.step;
    return nullptr;
  }
  const StepId oldest = last_ < recent_.size() ? 1 : last_ - recent_.size() + 1;
  if (plan.step < oldest || plan.step > last_)
    return absl::FailedPreconditionError(
        absl::StrCat("step ", plan.step, " of epoch ", epoch_, " is out of order: the next is ",
                     begun_ + 1, ", and the last ", recent_.size(), " can be repeated (step.1)"));
  return &recent_[plan.step % recent_.size()];
}

void StepLedger::Record(const StepResult& result) {
  OCTAVO_CHECK(result.step == last_ + 1 && last_ < begun_ && result.epoch == epoch_,
               "step=", result.step);
  last_ = result.step;
  recent_[last_ % recent_.size()] = result;
}

}  // namespace octavo
