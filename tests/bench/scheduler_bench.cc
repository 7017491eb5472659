// Cost of deciding: Schedule plus Commit of one step in steady state, with all sequences decoding
// and with one in ten still in its prompt.
//   octavo_scheduler_bench --benchmark_repetitions=9
#include <algorithm>
#include <chrono>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "benchmark/benchmark.h"
#include "common/check.h"
#include "common/heap.h"
#include "scheduler/core/scheduler.h"

namespace octavo {
namespace {

constexpr int32_t kVocabulary = 32000;
constexpr int32_t kPrompt = 64;
constexpr int32_t kChunk = 16;           // of a prompt: four steps of one, then 36 of decoding
constexpr int32_t kMixedTokens = 73;     // at most; half on average
constexpr int32_t kMaxTokens = 1 << 13;  // nobody ends while it is measured

StepResult Answer(const StepPlan& plan) {
  StepResult result{.epoch = plan.epoch, .step = plan.step};
  for (const SeqSlice& slice : plan.slices) {
    if (slice.sample) result.samples.push_back({.sequence = slice.sequence, .token = 5});
  }
  return result;
}

// Schedule(n + 1), then Commit(n), as the engine does: one step stays in flight. Answers and new
// requests are made outside the measured time.
class Stepping {
 public:
  Stepping(const SchedulerConfig& config, int32_t running, int32_t max_tokens)
      : scheduler_(config), max_tokens_(max_tokens) {
    for (int32_t i = 0; i < running; ++i) Add();
    last_ = scheduler_.Schedule(absl::UnixEpoch());
  }

  double StepSeconds() {
    const StepResult result = Answer(*last_);
    const auto start = std::chrono::steady_clock::now();
    std::optional<StepPlan> plan = scheduler_.Schedule(absl::UnixEpoch());
    const std::vector<TokenEvent> events = scheduler_.Commit(result);
    const auto end = std::chrono::steady_clock::now();
    for (const TokenEvent& event : events) {
      if (event.request_ended) Add();
    }
    // Only while nothing runs yet can a step find nothing to do.
    last_ = plan.has_value() ? std::move(plan) : scheduler_.Schedule(absl::UnixEpoch());
    return std::chrono::duration<double>(end - start).count();
  }

  int64_t PrefillSlices() const {
    return std::count_if(last_->slices.begin(), last_->slices.end(),
                         [](const SeqSlice& slice) { return !slice.feed_sampled; });
  }
  const Scheduler& scheduler() const { return scheduler_; }

 private:
  void Add() {
    Request request;
    request.id = next_id_++;
    for (int32_t i = 0; i < kPrompt; ++i) {
      request.prompt.push_back(static_cast<TokenId>(random_() % kVocabulary));
    }
    // Spread, so that ends and arrivals are too.
    request.max_tokens =
        max_tokens_ == kMaxTokens ? kMaxTokens : 1 + static_cast<int32_t>(request.id * 7919 % 73);
    request.ignore_eos = true;
    const absl::Status added = scheduler_.Add(std::move(request));
    OCTAVO_CHECK(added.ok(), added.message());
  }

  Scheduler scheduler_;
  const int32_t max_tokens_;
  RequestId next_id_ = 1;
  std::mt19937_64 random_{1};
  std::optional<StepPlan> last_;
};

SchedulerConfig ConfigFor(int32_t running, int32_t max_tokens) {
  SchedulerConfig config;
  config.block_size = 16;
  config.vocab_size = kVocabulary;
  config.max_model_len = kPrompt + max_tokens;
  config.num_blocks = config.max_model_len / config.block_size + int64_t{running} * 1024;
  config.max_num_seqs = running;
  config.max_num_batched_tokens = std::max(2048, 4 * running);
  return config;
}

void Measure(benchmark::State& state, Stepping* stepping) {
  std::vector<double> seconds;
  double prefill_slices = 0;
  for (auto _ : state) {
    seconds.push_back(stepping->StepSeconds());
    state.SetIterationTime(seconds.back());
    prefill_slices += static_cast<double>(stepping->PrefillSlices());
  }
  const auto percentile = [&](double share) {
    const size_t at = static_cast<size_t>(share * static_cast<double>(seconds.size() - 1));
    std::nth_element(seconds.begin(), seconds.begin() + at, seconds.end());
    return seconds[at] * 1e6;
  };
  state.counters["median_us"] = percentile(0.5);
  state.counters["p99_us"] = percentile(0.99);
  state.counters["ns_per_sequence"] = percentile(0.5) * 1e3 / static_cast<double>(state.range(0));
  state.counters["prefilling"] = prefill_slices / static_cast<double>(state.iterations());
}

void BM_Decoding(benchmark::State& state) {
  const int32_t running = static_cast<int32_t>(state.range(0));
  Stepping stepping(ConfigFor(running, kMaxTokens), running, kMaxTokens);
  do {
    stepping.StepSeconds();
  } while (stepping.scheduler().stats().waiting > 0 || stepping.PrefillSlices() > 0);
  Measure(state, &stepping);
}

void BM_OneInTenPrefilling(benchmark::State& state) {
  const int32_t running = static_cast<int32_t>(state.range(0));
  SchedulerConfig config = ConfigFor(running, kMixedTokens);
  config.max_prefill_chunk = kChunk;
  config.num_blocks = int64_t{running} * 12;  // so that blocks of ended requests are lent again
  Stepping stepping(config, running, kMixedTokens);
  for (int32_t i = 0; i < 10 * kMixedTokens; ++i) stepping.StepSeconds();
  Measure(state, &stepping);
}

// Bounded steps, so that the sequences stay within the pool.
constexpr int64_t kSteps = 4000;

BENCHMARK(BM_Decoding)->Arg(1)->Arg(64)->Arg(256)->Arg(1024)->UseManualTime()->Iterations(kSteps);
BENCHMARK(BM_OneInTenPrefilling)->Arg(64)->Arg(256)->Arg(1024)->UseManualTime()->Iterations(kSteps);

}  // namespace
}  // namespace octavo

int main(int argc, char** argv) {
  octavo::KeepFreedHeap();  // as the servers do
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
