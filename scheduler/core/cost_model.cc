#include "scheduler/core/cost_model.h"

#include <algorithm>

namespace octavo {
namespace {

constexpr double kDecay = 0.9;
constexpr double kLeastAddedShare = 0.1;
constexpr int32_t kVictimsBetweenProbes = 64;

void Average(double value, double* average) {
  *average = *average == 0 ? value : *average * kDecay + value * (1 - kDecay);
}

}  // namespace

void MovingRate::Observe(double amount, double seconds) {
  if (!(amount > 0) || !(seconds > 0)) return;
  amount_ = amount_ * kDecay + amount;
  seconds_ = seconds_ * kDecay + seconds;
}

CostModel::CostModel(const SchedulerConfig& config)
    : block_bytes_(static_cast<double>(config.block_bytes)),
      prefill_(config.initial_prefill_tokens_per_second),
      swap_out_(config.initial_swap_bytes_per_second),
      swap_in_(config.initial_swap_bytes_per_second) {}

void CostModel::Observe(const StepCosts& step) {
  if (step.prefill_tokens > 0) {
    const double added = std::max(step.compute_seconds - decode_step_seconds_,
                                  step.compute_seconds * kLeastAddedShare);
    prefill_.Observe(step.prefill_tokens, added);
  } else if (step.decode_tokens > 0 && step.compute_seconds > 0) {
    Average(step.compute_seconds, &decode_step_seconds_);
  }
  if (step.compute_seconds > 0) Average(step.compute_seconds, &step_seconds_);
  swap_out_.Observe(static_cast<double>(step.swap_out_bytes), step.swap_out_seconds);
  swap_in_.Observe(static_cast<double>(step.swap_in_bytes), step.swap_in_seconds);
}

void CostModel::ObserveReturn(int32_t given_up, int32_t found) {
  given_up_ = given_up_ * kDecay + std::max(0, given_up);
  found_ = found_ * kDecay + std::clamp(found, 0, std::max(0, given_up));
}

double CostModel::survival() const { return given_up_ > 0 ? found_ / given_up_ : 0; }

VictimCosts CostModel::Estimate(int64_t tokens, int64_t blocks, int64_t planned_blocks) const {
  const double lost = 1 - survival();
  const double block_out = block_bytes_ / swap_out_.per_second();
  const double planned = static_cast<double>(planned_blocks) * block_out;
  const double out = static_cast<double>(blocks) * block_out;
  const double in = static_cast<double>(blocks) * lost * block_bytes_ / swap_in_.per_second();
  // Beyond the step, or beyond the copies that outlast it already.
  const double added = std::max(0.0, planned + out - std::max(step_seconds_, planned));
  return {.recompute_seconds = static_cast<double>(tokens) * lost / prefill_.per_second(),
          .swap_seconds = added + std::max(0.0, in - step_seconds_)};
}

bool CostModel::ProbesSwap() const {
  return !swap_out_.measured() || recomputed_in_a_row_ >= kVictimsBetweenProbes;
}

void CostModel::NoteVictim(PreemptionMode chosen) {
  recomputed_in_a_row_ = chosen == PreemptionMode::kRecompute ? recomputed_in_a_row_ + 1 : 0;
}

}  // namespace octavo
