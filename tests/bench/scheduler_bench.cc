// Cost of deciding: Schedule plus Commit of one step, all sequences decoding, steady state.
//   octavo_scheduler_bench --benchmark_repetitions=9
#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "benchmark/benchmark.h"
#include "common/check.h"
#include "scheduler/core/scheduler.h"

namespace octavo {
namespace {

constexpr int32_t kPrompt = 64;
constexpr int32_t kMaxTokens = 1 << 13;  // nobody ends while it is measured

StepResult Answer(const StepPlan& plan) {
  StepResult result{.epoch = plan.epoch, .step = plan.step};
  for (const SeqSlice& slice : plan.slices) {
    if (slice.sample) result.samples.push_back({.sequence = slice.sequence, .token = 5});
  }
  return result;
}

class Decoding {
 public:
  explicit Decoding(int32_t running) : scheduler_(ConfigFor(running)) {
    for (int32_t i = 0; i < running; ++i) {
      Request request;
      request.id = static_cast<RequestId>(i) + 1;
      request.prompt.assign(kPrompt, 3);
      request.max_tokens = kMaxTokens;
      request.ignore_eos = true;
      const absl::Status added = scheduler_.Add(std::move(request));
      OCTAVO_CHECK(added.ok(), added.message());
    }
    // Until all have their prompts behind them; then one step stays in flight, as in the engine.
    do {
      last_ = scheduler_.Schedule(absl::UnixEpoch());
      scheduler_.Commit(Answer(*last_));
    } while (scheduler_.stats().waiting > 0 || !AllDecode());
    last_ = scheduler_.Schedule(absl::UnixEpoch());
  }

  // Schedule(n + 1), then Commit(n). The result is made outside the measured time.
  double StepSeconds() {
    const StepResult result = Answer(*last_);
    const auto start = std::chrono::steady_clock::now();
    std::optional<StepPlan> plan = scheduler_.Schedule(absl::UnixEpoch());
    const std::vector<TokenEvent> events = scheduler_.Commit(result);
    const auto end = std::chrono::steady_clock::now();
    benchmark::DoNotOptimize(events.data());
    last_ = std::move(plan);
    return std::chrono::duration<double>(end - start).count();
  }

 private:
  static SchedulerConfig ConfigFor(int32_t running) {
    SchedulerConfig config;
    config.block_size = 16;
    config.vocab_size = 32000;
    config.max_model_len = kPrompt + kMaxTokens;
    config.num_blocks = config.max_model_len / config.block_size + int64_t{running} * 1024;
    config.max_num_seqs = running;
    config.max_num_batched_tokens = std::max(2048, running);
    return config;
  }

  bool AllDecode() const {
    return std::all_of(last_->slices.begin(), last_->slices.end(),
                       [](const SeqSlice& slice) { return slice.feed_sampled; });
  }

  Scheduler scheduler_;
  std::optional<StepPlan> last_;
};

void BM_ScheduleAndCommit(benchmark::State& state) {
  const int32_t running = static_cast<int32_t>(state.range(0));
  Decoding decoding(running);
  std::vector<double> seconds;
  for (auto _ : state) {
    seconds.push_back(decoding.StepSeconds());
    state.SetIterationTime(seconds.back());
  }
  const auto percentile = [&](double share) {
    const size_t at = static_cast<size_t>(share * static_cast<double>(seconds.size() - 1));
    std::nth_element(seconds.begin(), seconds.begin() + at, seconds.end());
    return seconds[at] * 1e6;
  };
  state.counters["median_us"] = percentile(0.5);
  state.counters["p99_us"] = percentile(0.99);
  state.counters["ns_per_sequence"] = percentile(0.5) * 1e3 / running;
}
// Bounded steps, so that the sequences stay within the pool.
BENCHMARK(BM_ScheduleAndCommit)
    ->Arg(1)
    ->Arg(64)
    ->Arg(256)
    ->Arg(1024)
    ->UseManualTime()
    ->Iterations(4000);

}  // namespace
}  // namespace octavo

BENCHMARK_MAIN();
