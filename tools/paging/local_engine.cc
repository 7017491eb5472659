#include "tools/paging/local_engine.h"

#include <time.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/status_macros.h"
#include "scheduler/engine/token_stream.h"

namespace octavo::paging {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(200);

double Seconds(RunClock clock) {
  if (clock == RunClock::kWall) return absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return absl::ToDoubleSeconds(absl::DurationFromTimespec(time));
}

// Reads every stream of a batch. Written on the dispatcher's thread; outlives the streams.
class Collector {
 public:
  explicit Collector(size_t requests) : left_(requests), tokens_(requests) {}

  std::shared_ptr<TokenStream> NewStream(const std::shared_ptr<Collector>& self, size_t index,
                                         int32_t max_tokens) {
    auto& stream = streams_.emplace_back(std::make_shared<TokenStream>(
        max_tokens, /*choices=*/1, [self, index] { self->Drain(index); }));
    return stream;
  }
  // A request that the engine did not take.
  void Refuse(absl::Status why) {
    absl::MutexLock lock(&mutex_);
    Note(std::move(why));
  }
  bool AwaitAll(absl::Duration timeout) {
    absl::MutexLock lock(&mutex_);
    const auto all = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return left_ == 0; };
    return mutex_.AwaitWithTimeout(absl::Condition(&all), timeout);
  }
  absl::Status status() {
    absl::MutexLock lock(&mutex_);
    return status_;
  }
  std::vector<std::vector<TokenId>> TakeTokens() {
    absl::MutexLock lock(&mutex_);
    return std::move(tokens_);
  }

 private:
  void Drain(size_t index) {
    TokenStream::Batch batch = streams_[index]->Take();
    absl::MutexLock lock(&mutex_);
    for (const TokenEvent& event : batch.tokens) {
      if (event.token.has_value()) tokens_[index].push_back(*event.token);
    }
    if (batch.end.has_value()) Note(*std::move(batch.end));
  }
  void Note(absl::Status end) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    --left_;
    status_.Update(std::move(end));
  }

  std::vector<std::shared_ptr<TokenStream>> streams_;  // all made before the first is used
  absl::Mutex mutex_;
  size_t left_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::vector<TokenId>> tokens_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<std::unique_ptr<LocalEngine>> LocalEngine::Start(const EngineOptions& options,
                                                                std::unique_ptr<Executor> worker,
                                                                RunClock clock,
                                                                const Interrupted& interrupted) {
  std::vector<std::unique_ptr<Executor>> workers;
  workers.push_back(std::move(worker));
  auto loop = std::make_unique<EngineLoop>(options, std::move(workers));
  loop->Start();
  EngineState state = EngineState::kConnecting;
  while (state != EngineState::kReady) {
    state = loop->AwaitChange(state, kPoll);
    if (state == EngineState::kFailed) return loop->snapshot().failure;
    if (interrupted()) return absl::CancelledError("interrupted");
  }
  return std::unique_ptr<LocalEngine>(new LocalEngine(std::move(loop), clock));
}

absl::StatusOr<BatchResult> LocalEngine::Run(const std::vector<Request>& requests,
                                             const Interrupted& interrupted) {
  const auto collector = std::make_shared<Collector>(requests.size());
  std::vector<std::shared_ptr<TokenStream>> streams;
  for (size_t i = 0; i < requests.size(); ++i) {
    streams.push_back(collector->NewStream(collector, i, requests[i].max_tokens));
  }
  const EngineSnapshot before = loop_->snapshot();
  const absl::Time start = absl::Now();
  const double start_seconds = Seconds(clock_);
  for (size_t i = 0; i < requests.size(); ++i) {
    const absl::StatusOr<RequestId> id = loop_->Submit(requests[i], streams[i]);
    if (!id.ok()) collector->Refuse(id.status());
  }
  while (!collector->AwaitAll(kPoll)) {
    if (!interrupted()) continue;
    loop_->Stop();
    return absl::CancelledError("interrupted");
  }
  OCTAVO_RETURN_IF_ERROR(collector->status());

  BatchResult result;
  result.seconds = Seconds(clock_) - start_seconds;
  const double elapsed = absl::ToDoubleSeconds(absl::Now() - start);
  const EngineSnapshot after = loop_->snapshot();
  result.tokens = collector->TakeTokens();
  for (size_t i = 0; i < requests.size(); ++i) {
    result.prompt_tokens += static_cast<int64_t>(requests[i].prompt.size());
    result.output_tokens += static_cast<int64_t>(result.tokens[i].size());
  }
  const LevelSeconds& from = before.level_seconds;
  const LevelSeconds& to = after.level_seconds;
  result.mean_running = (to.running - from.running) / elapsed;
  result.mean_held_slots = (to.held_slots - from.held_slots) / elapsed;
  result.mean_filled_slots = (to.filled_slots - from.filled_slots) / elapsed;
  result.preemptions = after.stats.preemptions_pool - before.stats.preemptions_pool;
  result.computed_prompt_tokens = after.stats.prompt_tokens - before.stats.prompt_tokens;
  result.prefix_hit_tokens = after.stats.prefix_hit_tokens - before.stats.prefix_hit_tokens;
  result.adjacency_waits = after.stats.adjacency_waits - before.stats.adjacency_waits;
  return result;
}

}  // namespace octavo::paging
