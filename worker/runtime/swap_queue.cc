#include "worker/runtime/swap_queue.h"

#include <chrono>
#include <utility>

#include "common/executor.h"
#include "worker/kv/plan_check.h"

namespace octavo {

std::shared_ptr<SwapQueue::Job> SwapQueue::Begin(StepId step, const std::vector<BlockSwap>& swaps,
                                                 bool out) {
  auto job = std::make_shared<Job>();
  job->step = step;
  job->swaps = swaps;
  copier_.Post([this, job, out] {
    const auto start = std::chrono::steady_clock::now();
    job->status = out ? pool_.SwapOut(job->swaps) : pool_.SwapIn(job->swaps);
    job->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    job->done.Notify();
  });
  return job;
}

absl::StatusOr<double> SwapQueue::Finish(const std::shared_ptr<Job>& job) {
  if (job == nullptr) return 0.0;
  job->done.WaitForNotification();
  if (!job->status.ok()) return job->status;
  return job->seconds;
}

void SwapQueue::BeginIns(const StepPlan& plan) {
  absl::MutexLock lock(&mutex_);
  if (plan.step != begun_ + 1 || ins_.size() >= kMaxStepsInFlight) return;
  if (!CheckSwaps(plan, pool_.num_blocks(), pool_.num_swap_blocks()).ok()) return;
  begun_ = plan.step;
  if (!plan.swap_ins.empty()) ins_.push_back(Begin(plan.step, plan.swap_ins, /*out=*/false));
}

absl::StatusOr<double> SwapQueue::FinishIns(const StepPlan& plan) {
  std::shared_ptr<Job> job;
  {
    absl::MutexLock lock(&mutex_);
    if (plan.step > begun_) {
      begun_ = plan.step;
      if (!plan.swap_ins.empty()) ins_.push_back(Begin(plan.step, plan.swap_ins, /*out=*/false));
    }
    while (!ins_.empty() && ins_.front()->step < plan.step) ins_.pop_front();
    if (!ins_.empty() && ins_.front()->step == plan.step) {
      job = std::move(ins_.front());
      ins_.pop_front();
    }
  }
  return Finish(job);
}

void SwapQueue::BeginOuts(const StepPlan& plan) {
  if (!plan.swap_outs.empty()) outs_ = Begin(plan.step, plan.swap_outs, /*out=*/true);
}

absl::StatusOr<double> SwapQueue::FinishOuts() { return Finish(std::exchange(outs_, nullptr)); }

}  // namespace octavo
