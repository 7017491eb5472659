#include "tools/simulate/simulated_device.h"

#include <algorithm>
#include <utility>

#include "tools/simulate/workload.h"

namespace octavo::simulate {

void SimulatedDevice::Submit(const StepPlan& plan, double now) {
  const StepCost cost = costs_.Cost(WorkOf(plan));
  Step& step = steps_.emplace_back();
  step.answered = std::max(now, computed_until_) + cost.total_seconds;
  step.result.epoch = plan.epoch;
  step.result.step = plan.step;
  step.result.compute_seconds = cost.compute_seconds;
  Sample(plan, &step.result.samples);
  computed_until_ = step.answered;
  busy_seconds_ += cost.compute_seconds;
}

void SimulatedDevice::Sample(const StepPlan& plan, std::vector<SampledToken>* samples) const {
  samples->reserve(plan.slices.size());
  for (const SeqSlice& slice : plan.slices) {
    if (!slice.sample) continue;
    const int64_t position = int64_t{slice.context_length} + slice.num_tokens;
    samples->push_back({.sequence = slice.sequence,
                        .token = SampledTokenAt(slice.sequence, position, vocab_size_)});
    for (const Fork& fork : slice.forks) {
      samples->push_back(
          {.sequence = fork.child, .token = SampledTokenAt(fork.child, position, vocab_size_)});
    }
  }
}

StepResult SimulatedDevice::TakeAnswer() {
  StepResult result = std::move(steps_.front().result);
  steps_.pop_front();
  return result;
}

}  // namespace octavo::simulate
