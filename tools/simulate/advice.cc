#include "tools/simulate/advice.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace octavo::simulate {
namespace {

constexpr int64_t kAmpleBlocks = 4'000'000;

// Runs simulations of one traffic.
class Adviser {
 public:
  Adviser(const Trace& trace, double busiest_rate, const AdviceProgress& progress)
      : trace_(trace), busiest_rate_(busiest_rate), progress_(progress) {}

  absl::StatusOr<SimulationReport> Run(SimulationOptions options, double request_rate,
                                       const std::string& what) {
    if (progress_ && !progress_(what)) return absl::CancelledError("interrupted");
    options.request_rate = request_rate;
    OCTAVO_ASSIGN_OR_RETURN(const SimulationSetup setup, MakeSetup(options, trace_));
    SimulationReport report = Simulation(setup, trace_).Run([&](int64_t, int64_t) {
      return !progress_ || progress_(what);
    });
    if (report.interrupted) return absl::CancelledError("interrupted");
    if (report.requests_finished == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("no request of the traffic fits: ", report.first_refusal));
    }
    return report;
  }

  absl::StatusOr<FullLoad> RunFull(const SimulationOptions& options, const std::string& what) {
    OCTAVO_ASSIGN_OR_RETURN(const SimulationReport report,
                            Run(options, std::numeric_limits<double>::infinity(), what));
    return FullLoad{.requests_per_second = report.requests_per_second(),
                    .tokens_per_second = report.tokens_per_second(),
                    .preemptions_per_request = static_cast<double>(report.stats.preemptions_pool) /
                                               static_cast<double>(report.requests_finished),
                    .running = report.levels.Mean(kRunning)};
  }

  // What cannot work says why; every other error is one.
  absl::StatusOr<Alternative> Try(std::string name, std::string flags,
                                  const SimulationOptions& options) {
    Alternative tried{.name = std::move(name), .flags = std::move(flags)};
    const absl::StatusOr<SimulationSetup> setup = MakeSetup(options, trace_);
    if (!setup.ok()) {
      tried.why_not = std::string(setup.status().message());
      return tried;
    }
    tried.num_blocks = setup->pool.num_blocks;
    tried.block_size = setup->geometry.block_size();
    OCTAVO_ASSIGN_OR_RETURN(tried.full, RunFull(options, tried.name));
    if (busiest_rate_ <= 0) return tried;
    tried.busiest.overloaded = busiest_rate_ > tried.full.requests_per_second;
    if (tried.busiest.overloaded) return tried;
    OCTAVO_ASSIGN_OR_RETURN(const SimulationReport report, Run(options, busiest_rate_, tried.name));
    tried.busiest.ttft_p99_ms = report.ttft_seconds.Percentile(0.99) * 1e3;
    tried.busiest.itl_p99_ms = report.itl_seconds.Percentile(0.99) * 1e3;
    tried.busiest.queue_p99_ms = report.queue_seconds.Percentile(0.99) * 1e3;
    return tried;
  }

  absl::Status MeasureDemand(SimulationOptions options, Advice* advice) {
    const SimulationSetup setup = *MakeSetup(options, trace_);
    const int64_t longest = setup.geometry.BlocksFor(setup.scheduler.max_model_len);
    options.num_blocks = std::min(kAmpleBlocks, longest * options.scheduler.max_num_seqs + 1);
    options.scheduler.prefix_cache = false;
    options.scheduler.kv_watermark = 0;
    OCTAVO_ASSIGN_OR_RETURN(const SimulationReport report,
                            Run(options, busiest_rate_, "blocks needed"));
    advice->blocks_mean = report.levels.Mean(kActiveBlocks);
    advice->blocks_peak = report.levels.Most(kActiveBlocks);
    return absl::OkStatus();
  }

  // Preemptions grow with the sequences that may run, so halving finds where they begin.
  absl::Status FindNumSeqs(SimulationOptions options, Advice* advice) {
    const auto run = [&](int64_t num_seqs) {
      options.scheduler.max_num_seqs = static_cast<int32_t>(num_seqs);
      return RunFull(options, absl::StrCat("--max-num-seqs ", num_seqs));
    };
    int64_t most = std::min<int64_t>({options.scheduler.max_num_batched_tokens, 4096,
                                      static_cast<int64_t>(trace_.requests.size()) / 2});
    most = std::max<int64_t>(most, 1);
    OCTAVO_ASSIGN_OR_RETURN(FullLoad full, run(most));
    advice->never_sustained = full.preemptions_per_request <= kSustainedPreemptions;
    if (advice->never_sustained) {
      advice->advised_num_seqs = static_cast<int32_t>(most);
      advice->advised = full;
      return absl::OkStatus();
    }
    int64_t good = 1;
    OCTAVO_ASSIGN_OR_RETURN(advice->advised, run(good));
    for (int64_t bad = most; bad - good > std::max<int64_t>(1, good / 32);) {
      const int64_t middle = (good + bad) / 2;
      OCTAVO_ASSIGN_OR_RETURN(full, run(middle));
      if (full.preemptions_per_request <= kSustainedPreemptions) {
        good = middle;
        advice->advised = full;
      } else {
        bad = middle;
      }
    }
    advice->advised_num_seqs = static_cast<int32_t>(good);
    return absl::OkStatus();
  }

 private:
  const Trace& trace_;
  const double busiest_rate_;
  const AdviceProgress& progress_;
};

int32_t NextCards(const ModelSpec& model, int32_t cards) {
  for (int32_t more = cards + 1; more <= model.kv_heads; ++more) {
    if (model.kv_heads % more == 0) return more;
  }
  return 0;
}

}  // namespace

absl::StatusOr<Advice> Advise(const Traffic& traffic, const Trace& trace,
                              const SimulationOptions& options, const AdviceProgress& progress) {
  OCTAVO_ASSIGN_OR_RETURN(const SimulationSetup setup, MakeSetup(options, trace));
  Advice advice{.traffic = traffic};
  advice.traffic.requests_per_second *= options.arrival_scale;
  advice.traffic.busiest_requests_per_second *= options.arrival_scale;
  advice.device = setup.device.name;
  advice.model = setup.model.name;
  advice.cards = setup.cards;
  advice.bytes_per_token = setup.geometry.bytes_per_token() * setup.cards;
  advice.max_num_seqs = options.scheduler.max_num_seqs;
  for (const double share : {0.95, 0.99, 0.999, 1.0}) {
    const int64_t length = traffic.total.Percentile(share);
    advice.lengths.push_back({share, length, traffic.total.ShareAbove(length)});
  }

  const double rate = advice.traffic.busiest_requests_per_second;
  Adviser adviser(trace, rate, progress);
  OCTAVO_ASSIGN_OR_RETURN(advice.now, adviser.Try("as it is", "", options));
  if (rate > 0 && !advice.now.busiest.overloaded) {
    OCTAVO_RETURN_IF_ERROR(adviser.MeasureDemand(options, &advice));
  }
  OCTAVO_RETURN_IF_ERROR(adviser.FindNumSeqs(options, &advice));

  if (setup.geometry.dtype() != DType::kI8) {
    SimulationOptions other = options;
    other.kv_cache_dtype = "int8";
    if (options.num_blocks > 0) {
      // The same bytes of cache.
      KvShape shape = setup.geometry.shape();
      OCTAVO_ASSIGN_OR_RETURN(
          const CacheGeometry int8,
          CacheGeometry::Create(shape, DType::kI8, options.scheduler.block_size));
      other.num_blocks = setup.geometry.PoolBytes(options.num_blocks) / int8.bytes_per_block();
    }
    OCTAVO_ASSIGN_OR_RETURN(advice.alternatives.emplace_back(),
                            adviser.Try("8-bit KV cache", "--kv-cache-dtype=int8", other));
  }
  for (const int32_t block_size : {8, 16, 32, 64}) {
    if (block_size == options.scheduler.block_size) continue;
    SimulationOptions other = options;
    other.scheduler.block_size = block_size;
    other.num_blocks = options.num_blocks * options.scheduler.block_size / block_size;
    OCTAVO_ASSIGN_OR_RETURN(advice.alternatives.emplace_back(),
                            adviser.Try(absl::StrCat("blocks of ", block_size, " tokens"),
                                        absl::StrCat("--block-size=", block_size), other));
  }
  if (const int32_t cards = NextCards(setup.model, options.cards); cards > 0) {
    SimulationOptions other = options;
    other.cards = cards;
    // A given pool says nothing about another number of cards: as many bytes a card.
    other.num_blocks = options.num_blocks * cards / options.cards;
    OCTAVO_ASSIGN_OR_RETURN(
        advice.alternatives.emplace_back(),
        adviser.Try(absl::StrCat(cards, " cards"), absl::StrCat("--cards=", cards), other));
  }
  return advice;
}

}  // namespace octavo::simulate
