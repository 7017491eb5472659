// What giving up a request's blocks will cost, by the rates that steps have shown (det.3).
#ifndef OCTAVO_SCHEDULER_CORE_COST_MODEL_H_
#define OCTAVO_SCHEDULER_CORE_COST_MODEL_H_

#include <cstdint>

#include "scheduler/core/scheduler_config.h"

namespace octavo {

// Amount per second over recent observations, each weighing by its amount: the last ten or so.
class MovingRate {
 public:
  explicit MovingRate(double initial) : initial_(initial) {}
  // Ignored unless both are positive.
  void Observe(double amount, double seconds);
  double per_second() const { return seconds_ > 0 ? amount_ / seconds_ : initial_; }
  bool measured() const { return seconds_ > 0; }

 private:
  double initial_;
  double amount_ = 0;
  double seconds_ = 0;
};

// A committed step, of one rank.
struct StepCosts {
  int32_t prefill_tokens = 0;
  int32_t decode_tokens = 0;
  double compute_seconds = 0;
  int64_t swap_out_bytes = 0;
  double swap_out_seconds = 0;
  int64_t swap_in_bytes = 0;
  double swap_in_seconds = 0;
};

struct VictimCosts {
  double recompute_seconds = 0;
  double swap_seconds = 0;
};

// Pure arithmetic. Single-threaded.
//
// A prefill token's cost is what it adds to a step: of a step with prefills, the time beyond that
// of recent steps of decodes alone, which run anyway and read the weights anyway. At least a tenth
// of a step counts as added, so that noise cannot make tokens free.
class CostModel {
 public:
  explicit CostModel(const SchedulerConfig& config);

  void Observe(const StepCosts& step);
  // A preempted request is back: of the tokens that it gave up, so many were found on the device.
  void ObserveReturn(int32_t given_up, int32_t found);

  double prefill_tokens_per_second() const { return prefill_.per_second(); }
  double swap_out_bytes_per_second() const { return swap_out_.per_second(); }
  double swap_in_bytes_per_second() const { return swap_in_.per_second(); }
  // Of the tokens that preempted requests gave up lately, the share that they found again.
  double survival() const;

  // For a victim that gives up `tokens` and would have `blocks` copied to the host, in a step that
  // copies `planned_blocks` out already. Nobody computes, or copies in, what is likely to survive
  // on the device. Copies run beside compute, each way (step.4): what fits into the time of a step
  // costs nothing.
  VictimCosts Estimate(int64_t tokens, int64_t blocks, int64_t planned_blocks) const;
  // Whether the next victim that could be swapped should be, whatever the estimate: what nobody
  // tries nobody measures. So it is before the first copy, and again after many victims in a row
  // that were recomputed.
  bool ProbesSwap() const;
  void NoteVictim(PreemptionMode chosen);

 private:
  const double block_bytes_;
  MovingRate prefill_;   // tokens
  MovingRate swap_out_;  // bytes
  MovingRate swap_in_;
  double decode_step_seconds_ = 0;  // moving average over steps of decodes alone; 0: none yet
  double step_seconds_ = 0;         // over all steps
  int32_t recomputed_in_a_row_ = 0;
  double given_up_ = 0;  // tokens, decaying like the rates
  double found_ = 0;
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_CORE_COST_MODEL_H_
