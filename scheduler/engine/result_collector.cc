#include "scheduler/engine/result_collector.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace octavo {

ResultCollector::ResultCollector(int num_ranks, StepSink on_step, LostSink on_lost)
    : on_step_(std::move(on_step)), on_lost_(std::move(on_lost)), answered_(num_ranks, 0) {}

void ResultCollector::Begin(Epoch epoch) {
  absl::MutexLock lock(&mutex_);
  epoch_ = epoch;
  failed_ = false;
  std::fill(answered_.begin(), answered_.end(), 0);
  done_ = 0;
  of_rank_0_.clear();
}

void ResultCollector::Answer(int rank, absl::StatusOr<StepResult> result) {
  absl::MutexLock lock(&mutex_);
  if (failed_) return;
  if (!result.ok()) {
    FailLocked(std::move(result).status());
    return;
  }
  const StepId expected = answered_[rank] + 1;
  if (result->epoch != epoch_ || result->step != expected) {
    FailLocked(absl::InternalError(absl::StrCat("rank ", rank, " answered epoch ", result->epoch,
                                                " step ", result->step, "; expected epoch ", epoch_,
                                                " step ", expected)));
    return;
  }
  answered_[rank] = expected;
  if (rank == 0) of_rank_0_.push_back(*std::move(result));
  while (*std::min_element(answered_.begin(), answered_.end()) > done_) {
    ++done_;
    StepResult done = std::move(of_rank_0_.front());
    of_rank_0_.pop_front();
    on_step_(std::move(done));
  }
}

void ResultCollector::Fail(absl::Status why) {
  absl::MutexLock lock(&mutex_);
  if (!failed_) FailLocked(std::move(why));
}

void ResultCollector::FailLocked(absl::Status why) {
  failed_ = true;
  on_lost_(epoch_, std::move(why));
}

}  // namespace octavo
