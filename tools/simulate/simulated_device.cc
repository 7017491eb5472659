#include "tools/simulate/simulated_device.h"

#include <algorithm>
#include <utility>

#include "tools/simulate/workload.h"

namespace octavo::simulate {

void SimulatedDevice::Submit(const StepPlan& plan, double now) {
  const StepCost cost = costs_.Cost(WorkOf(plan));
  double begin = std::max(now, computed_until_);
  double answered = begin;
  if (cost.swap_out_seconds > 0) {
    copied_out_until_ = std::max(begin, copied_out_until_) + cost.swap_out_seconds;
    answered = copied_out_until_;
  }
  if (cost.swap_in_seconds > 0) {
    copied_in_until_ = std::max(now, copied_in_until_) + cost.swap_in_seconds;
    begin = std::max(begin, copied_in_until_);
  }
  computed_until_ = begin + cost.compute_seconds;
  answered = std::max(answered, computed_until_);
  if (!steps_.empty()) answered = std::max(answered, steps_.back().answered);
  Step& step = steps_.emplace_back();
  step.answered = answered;
  step.result.epoch = plan.epoch;
  step.result.step = plan.step;
  step.result.compute_seconds = cost.compute_seconds;
  step.result.swap_out_seconds = cost.swap_out_seconds;
  step.result.swap_in_seconds = cost.swap_in_seconds;
  Sample(plan, &step.result.samples);
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
