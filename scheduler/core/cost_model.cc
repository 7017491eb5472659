#include "scheduler/core/cost_model.h"

#include <algorithm>

namespace octavo {
namespace {

constexpr double kDecay = 0.9;
constexpr double kLeastAddedShare = 0.1;

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
    decode_step_seconds_ = decode_step_seconds_ == 0 ? step.compute_seconds
                                                     : decode_step_seconds_ * kDecay +
                                                           step.compute_seconds * (1 - kDecay);
  }
  swap_out_.Observe(static_cast<double>(step.swap_out_bytes), step.swap_out_seconds);
  swap_in_.Observe(static_cast<double>(step.swap_in_bytes), step.swap_in_seconds);
}

void CostModel::ObserveReturn(int32_t given_up, int32_t found) {
  given_up_ = given_up_ * kDecay + std::max(0, given_up);
  found_ = found_ * kDecay + std::clamp(found, 0, std::max(0, given_up));
}

double CostModel::survival() const { return given_up_ > 0 ? found_ / given_up_ : 0; }

VictimCosts CostModel::Estimate(int64_t tokens, int64_t blocks) const {
  const double lost = 1 - survival();
  const double bytes = static_cast<double>(blocks) * block_bytes_;
  return {.recompute_seconds = static_cast<double>(tokens) * lost / prefill_.per_second(),
          .swap_seconds = bytes / swap_out_.per_second() + bytes * lost / swap_in_.per_second()};
}

}  // namespace octavo
