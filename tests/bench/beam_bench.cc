// Cost of deciding for one beam search: Schedule plus Commit of a step of all its beams.
//   octavo_beam_bench --benchmark_repetitions=5
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "benchmark/benchmark.h"
#include "common/check.h"
#include "scheduler/core/scheduler.h"

namespace octavo {
namespace {

constexpr int32_t kPrompt = 64;
constexpr int32_t kMaxTokens = 1 << 10;

class Searching {
 public:
  explicit Searching(int32_t width) : width_(width), scheduler_(ConfigFor(width)) { Add(); }

  // The result is made outside the measured time.
  double StepSeconds() {
    if (scheduler_.idle()) Add();
    const auto start = std::chrono::steady_clock::now();
    const std::optional<StepPlan> plan = scheduler_.Schedule(absl::UnixEpoch());
    const auto scheduled = std::chrono::steady_clock::now();
    const StepResult result = Answer(*plan);
    const auto answered = std::chrono::steady_clock::now();
    const std::vector<TokenEvent> events = scheduler_.Commit(result);
    const auto end = std::chrono::steady_clock::now();
    benchmark::DoNotOptimize(events.data());
    return std::chrono::duration<double>((scheduled - start) + (end - answered)).count();
  }

  SchedulerStats stats() const { return scheduler_.stats(); }

 private:
  static SchedulerConfig ConfigFor(int32_t width) {
    SchedulerConfig config;
    config.block_size = 16;
    config.vocab_size = 32000;
    config.max_model_len = kPrompt + kMaxTokens;
    config.num_blocks = int64_t{width + 1} * config.max_model_len / config.block_size;
    return config;
  }

  void Add() {
    Request request;
    request.id = ++last_id_;
    request.prompt.assign(kPrompt, 3);
    request.max_tokens = kMaxTokens;
    request.n = width_;
    request.beam = BeamParams{.width = width_};
    request.ignore_eos = true;
    const absl::Status added = scheduler_.Add(std::move(request));
    OCTAVO_CHECK(added.ok(), added.message());
  }

  // Falls of up to half a nat from one to the next, so that beams keep dying and being born.
  StepResult Answer(const StepPlan& plan) {
    StepResult result{.epoch = plan.epoch, .step = plan.step};
    for (const SeqSlice& slice : plan.slices) {
      if (!slice.sample) continue;
      SampledToken& sample = result.samples.emplace_back();
      sample.sequence = slice.sequence;
      float logprob = 0;
      for (int32_t i = 0; i < 2 * width_; ++i) {
        logprob -= static_cast<float>(random_() % 1024) / 2048;
        sample.top.push_back({static_cast<TokenId>(i * 450 + random_() % 450), logprob});
      }
    }
    return result;
  }

  const int32_t width_;
  Scheduler scheduler_;
  RequestId last_id_ = 0;
  std::mt19937 random_;
};

void BM_BeamStep(benchmark::State& state) {
  Searching searching(static_cast<int32_t>(state.range(0)));
  std::vector<double> seconds;
  for (auto _ : state) {
    seconds.push_back(searching.StepSeconds());
    state.SetIterationTime(seconds.back());
  }
  const auto percentile = [&](double share) {
    const size_t at = static_cast<size_t>(share * static_cast<double>(seconds.size() - 1));
    std::nth_element(seconds.begin(), seconds.begin() + at, seconds.end());
    return seconds[at] * 1e6;
  };
  state.counters["median_us"] = percentile(0.5);
  state.counters["p99_us"] = percentile(0.99);
  state.counters["copies_per_step"] =
      static_cast<double>(searching.stats().copies_on_write) / static_cast<double>(seconds.size());
}
BENCHMARK(BM_BeamStep)->Arg(1)->Arg(4)->Arg(8)->Arg(32)->UseManualTime()->Iterations(2000);

}  // namespace
}  // namespace octavo

BENCHMARK_MAIN();
