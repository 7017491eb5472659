// Answers plans after the seconds that the cost model gives them.
#ifndef OCTAVO_TOOLS_SIMULATE_SIMULATED_DEVICE_H_
#define OCTAVO_TOOLS_SIMULATE_SIMULATED_DEVICE_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "common/step.h"
#include "tools/simulate/cost_model.h"

namespace octavo::simulate {

// Computes one step after the other, in order of submission. Swap-outs run beside the compute of
// their step, swap-ins from the moment that their plan arrives; a step computes when its swap-ins
// are there, and is answered when its swap-outs are. Each direction of the link carries one plan's
// copies at a time. The samples are made up: every request of a simulation ends by length.
class SimulatedDevice {
 public:
  SimulatedDevice(const CostModel& costs, int32_t vocab_size)
      : costs_(costs), vocab_size_(vocab_size) {}

  // `now`: seconds since the start, never less than in the call before.
  void Submit(const StepPlan& plan, double now);
  size_t in_flight() const { return steps_.size(); }
  double next_answer() const { return steps_.front().answered; }  // REQUIRES: in_flight() > 0
  StepResult TakeAnswer();

  double busy_seconds() const { return busy_seconds_; }  // of compute

 private:
  struct Step {
    double answered = 0;
    StepResult result;
  };

  void Sample(const StepPlan& plan, std::vector<SampledToken>* samples) const;

  const CostModel costs_;
  const int32_t vocab_size_;
  std::deque<Step> steps_;
  double computed_until_ = 0;
  double copied_out_until_ = 0;
  double copied_in_until_ = 0;
  double busy_seconds_ = 0;
};

}  // namespace octavo::simulate

#endif  // OCTAVO_TOOLS_SIMULATE_SIMULATED_DEVICE_H_
