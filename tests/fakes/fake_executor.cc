#include "tests/fakes/fake_executor.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace octavo {

WorkerDescription FakeDescription() {
  return {.name = "fake",
          .device = "none",
          .numeric_path = "fake/hash",
          .version = "0",
          .model_name = "hash",
          .model_digest = "digest-of-hash",
          .kv_shape = {.num_layers = 2, .num_kv_heads = 2, .head_dim = 8},
          .vocab_size = 64,
          .max_positions = 512};
}

FakeExecutor::FakeExecutor(std::shared_ptr<FakeWorkerControl> control)
    : control_(std::move(control)) {}

FakeExecutor::~FakeExecutor() { Stop(); }

absl::StatusOr<WorkerDescription> FakeExecutor::Describe() {
  absl::MutexLock lock(&control_->mutex_);
  ++control_->describes_;
  if (control_->unreachable_) return absl::UnavailableError("the fake worker is not there");
  return control_->description;
}

absl::Status FakeExecutor::Load(const ProgressSink& progress) {
  if (control_->Get(&control_->unreachable_))
    return absl::UnavailableError("the fake worker is gone");
  for (int part = 0; part <= 4; ++part)
    progress({control_->load_bytes * part / 4, control_->load_bytes});
  return absl::OkStatus();
}

absl::StatusOr<WorkerCapacity> FakeExecutor::Configure(const WorkerConfig& config) {
  WorkerCapacity capacity{.num_blocks = control_->fitting_blocks,
                          .weight_bytes = control_->load_bytes,
                          .budget_reason = "the test says so",
                          .num_swap_blocks = control_->swap_blocks};
  if (config.num_blocks == 0) {
    if (config.world_size > 1) capacity.communicator_address = absl::StrCat("rank ", config.rank);
    return capacity;
  }
  {
    absl::MutexLock lock(&control_->mutex_);
    if (control_->unreachable_) return absl::UnavailableError("the fake worker is gone");
    ++control_->configures_;
    control_->config_ = config;
  }
  absl::MutexLock lock(&mutex_);
  worker_.emplace(ShadowWorkerConfig{.num_blocks = config.num_blocks,
                                     .block_size = config.block_size,
                                     .vocab_size = control_->description.vocab_size,
                                     .max_model_len = config.max_model_len,
                                     .max_num_seqs = config.max_num_seqs,
                                     .max_num_batched_tokens = config.max_num_batched_tokens,
                                     .num_swap_blocks = config.num_swap_blocks});
  worker_->Reset(config.epoch);
  capacity.num_blocks = config.num_blocks;
  capacity.num_swap_blocks = config.num_swap_blocks;
  return capacity;
}

absl::Status FakeExecutor::Start(ResultSink sink) {
  absl::MutexLock lock(&mutex_);
  sink_ = std::move(sink);
  stopping_ = false;
  waiting_ = 0;
  broken_ = absl::OkStatus();
  thread_ = std::thread([this] { Run(); });
  return absl::OkStatus();
}

absl::Status FakeExecutor::Submit(const StepPlan& plan) {
  absl::MutexLock lock(&mutex_);
  if (absl::Status accepted = worker_->Submit(plan); !accepted.ok()) broken_ = accepted;
  ++waiting_;
  return absl::OkStatus();
}

void FakeExecutor::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

FakeExecutor::Fate FakeExecutor::Await() {
  while (true) {
    {
      absl::MutexLock stop(&mutex_);
      if (stopping_) return Fate::kDrop;
    }
    absl::MutexLock lock(&control_->mutex_);
    if (control_->held_) {
      control_->mutex_.AwaitWithTimeout(absl::Condition(
                                            +[](bool* held) { return !*held; }, &control_->held_),
                                        absl::Milliseconds(5));
      continue;
    }
    if (control_->failures_left_ > 0 && control_->countdown_-- <= 0) {
      --control_->failures_left_;
      control_->countdown_ = control_->fail_after_;
      return Fate::kFail;
    }
    if (control_->drop_after_ >= 0 && control_->drop_after_-- == 0) return Fate::kDrop;
    ++control_->steps_;
    return control_->lying_ ? Fate::kLie : Fate::kAnswer;
  }
}

void FakeExecutor::Run() {
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &FakeExecutor::Due));
      if (stopping_) return;
    }
    if (const absl::Duration time = control_->Get(&control_->step_time_);
        time > absl::ZeroDuration())
      absl::SleepFor(time);
    const Fate fate = Await();
    if (fate == Fate::kDrop) {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&stopping_));
      return;
    }
    absl::StatusOr<StepResult> result = absl::UnavailableError("the fake worker broke");
    ResultSink sink;
    {
      absl::MutexLock lock(&mutex_);
      --waiting_;
      if (!broken_.ok())
        result = broken_;
      else if (fate != Fate::kFail)
        result = worker_->Run();
      if (fate == Fate::kLie && result.ok()) result->samples.push_back({.sequence = 999});
      sink = sink_;
    }
    const bool ok = result.ok();
    sink(std::move(result));
    if (!ok) return;
  }
}

}  // namespace octavo
