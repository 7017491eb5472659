// `octavo bench paging`: the same requests through the same engine and the same bytes of KV cache,
// paged and contiguous.
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "scheduler/transport/flags.h"
#include "scheduler/transport/scheduler_server.h"
#include "tools/command.h"
#include "tools/paging/local_engine.h"
#include "tools/paging/paging_report.h"
#include "tools/paging/rates.h"
#include "tools/paging/traffic.h"
#include "worker/runtime/local_executor.h"

namespace octavo::tools {
namespace {

using paging::BatchResult;
using paging::LocalEngine;
using paging::Measurement;
using paging::PagingReport;
using paging::Rates;
using paging::Setting;

struct PagingOptions {
  SchedulerFlags scheduler;
  LocalExecutorOptions worker;
  paging::TrafficOptions traffic;
  std::vector<std::string> policies = {"paged", "contiguous-max", "contiguous-pow2",
                                       "contiguous-oracle"};
  std::vector<int32_t> block_sizes = {16};
  int64_t pool_tokens = 0;
  int repeats = 1;
  bool no_rates = false;
  paging::RunClock clock = paging::RunClock::kWall;
  LogFlags log = {.level = "warning"};
  bool json = false;
};

class PagingBench {
 public:
  PagingBench(const PagingOptions& options, Signals& signals)
      : options_(options), signals_(signals) {}

  absl::StatusOr<PagingReport> Run();

 private:
  absl::StatusOr<std::unique_ptr<LocalEngine>> StartEngine(const Setting& setting,
                                                           int64_t pool_tokens);
  absl::Status RunSetting(size_t index);
  absl::Status MeasureRates();
  void Say(absl::string_view what) { absl::FPrintF(stderr, "octavo bench paging: %s\n", what); }

  const PagingOptions& options_;
  Signals& signals_;
  const paging::Interrupted interrupted_ = [this] {
    return signals_.Wait(absl::ZeroDuration()) != 0;
  };
  std::vector<Request> requests_;
  std::vector<std::vector<TokenId>> expected_;  // of the first run
  PagingReport report_;
};

absl::StatusOr<std::unique_ptr<LocalEngine>> PagingBench::StartEngine(const Setting& setting,
                                                                      int64_t pool_tokens) {
  SchedulerFlags flags = options_.scheduler;
  flags.block_size = setting.block_size;
  flags.kv_allocation = std::string(Name(setting.allocation));
  flags.num_gpu_blocks_override = (pool_tokens + setting.block_size - 1) / setting.block_size;
  flags.max_queued_requests =
      std::max(flags.max_queued_requests, static_cast<int32_t>(requests_.size()));
  OCTAVO_ASSIGN_OR_RETURN(ServedModel model, LoadServedModel(flags.model_path, flags.load_format));
  OCTAVO_ASSIGN_OR_RETURN(const EngineOptions engine, MakeEngineOptions(flags, &model));
  OCTAVO_ASSIGN_OR_RETURN(const CacheGeometry geometry,
                          CacheGeometry::Create(engine.group.model.kv_shape,
                                                engine.group.config.kv_dtype, setting.block_size));
  report_.pool_bytes = geometry.PoolBytes(options_.pool_tokens / setting.block_size);
  OCTAVO_ASSIGN_OR_RETURN(std::unique_ptr<LocalExecutor> worker,
                          LocalExecutor::Create(options_.worker));
  worker->BeginLoad();
  return LocalEngine::Start(engine, std::move(worker), options_.clock, interrupted_);
}

absl::Status PagingBench::RunSetting(size_t index) {
  const Setting& setting = report_.settings[index];
  OCTAVO_ASSIGN_OR_RETURN(const std::unique_ptr<LocalEngine> engine,
                          StartEngine(setting, options_.pool_tokens));
  Measurement run;
  OCTAVO_ASSIGN_OR_RETURN(run.result, engine->Run(requests_, interrupted_));
  std::vector<std::vector<TokenId>> tokens = std::move(run.result.tokens);
  run.result.tokens.clear();
  if (expected_.empty())
    expected_ = std::move(tokens);
  else
    run.same_tokens = tokens == expected_;
  Say(absl::StrFormat("%s: %.1f tokens/s, %.1f s, %.1f running, %.1f%% of held slots filled%s",
                      KeyOf(report_, setting), run.result.tokens_per_s(), run.result.seconds,
                      run.result.mean_running, 100 * run.result.slots_filled(),
                      run.same_tokens ? "" : "; OTHER TOKENS"));
  report_.runs[index].push_back(std::move(run));
  return absl::OkStatus();
}

// At the concurrencies that the last repeat came to, right after it: noise changes with time.
absl::Status PagingBench::MeasureRates() {
  std::vector<double> concurrencies;
  for (const auto& repeats : report_.runs) {
    concurrencies.push_back(repeats.back().result.mean_running);
  }
  const Setting paged{.allocation = KvAllocation::kPaged,
                      .block_size = report_.settings.front().block_size};
  // Twice what is needed, and one request of the longest length: nothing is short of blocks.
  const int64_t pool = 2 * TokensToMeasure(report_.shape, concurrencies) + report_.max_model_len;
  OCTAVO_ASSIGN_OR_RETURN(const std::unique_ptr<LocalEngine> engine, StartEngine(paged, pool));
  Rates rates;
  OCTAVO_RETURN_IF_ERROR(paging::MeasureRates(*engine, report_.shape, concurrencies,
                                              options_.traffic.vocab_size, interrupted_, &rates));
  for (auto& repeats : report_.runs) {
    Measurement& run = repeats.back();
    run.predicted_seconds = PredictedSeconds(rates, report_.shape, run.result.mean_running);
  }
  report_.rates.push_back(std::move(rates));
  return absl::OkStatus();
}

absl::StatusOr<PagingReport> PagingBench::Run() {
  OCTAVO_ASSIGN_OR_RETURN(paging::Traffic traffic, MakeTraffic(options_.traffic));
  requests_ = std::move(traffic.requests);
  report_.shape = paging::ShapeOf(requests_);
  report_.trace = options_.traffic.trace;
  report_.cpu_clock = options_.clock == paging::RunClock::kCpu;
  report_.skipped = traffic.skipped;
  report_.clipped = traffic.clipped;
  report_.max_model_len = options_.traffic.max_model_len;
  report_.pool_tokens = options_.pool_tokens;
  for (const int32_t block_size : options_.block_sizes) {
    for (const std::string& policy : options_.policies) {
      report_.settings.push_back({*ParseKvAllocation(policy), block_size});
    }
  }
  report_.runs.resize(report_.settings.size());
  for (int repeat = 0; repeat < options_.repeats; ++repeat) {
    Say(absl::StrCat("repeat ", repeat + 1, " of ", options_.repeats));
    for (size_t i = 0; i < report_.settings.size(); ++i) OCTAVO_RETURN_IF_ERROR(RunSetting(i));
    if (!options_.no_rates && report_.settings.size() > 1) OCTAVO_RETURN_IF_ERROR(MeasureRates());
  }
  return std::move(report_);
}

// Fills what depends on the model.
absl::Status Complete(PagingOptions* options) {
  SchedulerFlags& flags = options->scheduler;
  OCTAVO_ASSIGN_OR_RETURN(ServedModel model, LoadServedModel(flags.model_path, flags.load_format));
  OCTAVO_RETURN_IF_ERROR(MakeEngineOptions(flags, &model).status());
  options->traffic.max_model_len = flags.max_model_len;
  options->traffic.vocab_size = model.config.vocab_size;
  if (options->pool_tokens == 0) options->pool_tokens = 2 * int64_t{flags.max_model_len};
  for (const int32_t block_size : options->block_sizes) {
    if (options->pool_tokens % block_size == 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--pool-tokens is ", options->pool_tokens,
                     "; it must be a multiple of every --block-size, and ", block_size, " is one"));
  }
  options->worker.model_path = flags.model_path;
  return absl::OkStatus();
}

int Bench(PagingOptions options, Signals& signals) {
  InstallLogSink(options.log);
  absl::StatusOr<PagingReport> report = [&]() -> absl::StatusOr<PagingReport> {
    OCTAVO_RETURN_IF_ERROR(Complete(&options));
    return PagingBench(options, signals).Run();
  }();
  if (!report.ok()) {
    absl::FPrintF(stderr, "octavo bench paging: %s\n", report.status().message());
    return absl::IsCancelled(report.status()) ? 130 : 1;
  }
  const std::string text =
      options.json ? absl::StrCat(ToJson(*report).dump(), "\n") : ToTable(*report);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return report->same_tokens() ? 0 : 1;
}

void AddWorkloadFlags(CLI::App& app, PagingOptions* options) {
  app.add_option("--trace", options->traffic.trace,
                 "sharegpt-like (prompts of mean 161 and answers of mean 338 tokens, log-normal), "
                 "classification, documents, or the file of a trace, whose lengths are used")
      ->capture_default_str();
  app.add_option("--requests", options->traffic.requests, "Requests, all submitted at once")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_option("--random-seed", options->traffic.seed, "Seed of lengths and token ids")
      ->capture_default_str();
  app.add_option("--policies", options->policies,
                 "Comma-separated; gains are those of the first one over the others")
      ->delimiter(',')
      ->check(CLI::IsMember({"paged", "contiguous-max", "contiguous-pow2", "contiguous-oracle"}))
      ->capture_default_str();
  app.add_option("--block-size", options->block_sizes,
                 "Tokens in one block: 8, 16, 32 or 64; several, comma-separated, are compared")
      ->delimiter(',')
      ->check(CLI::IsMember({8, 16, 32, 64}))
      ->capture_default_str();
  app.add_option("--repeats", options->repeats,
                 "Times that all settings run, in turns; medians are reported")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  const std::map<std::string, paging::RunClock> clocks = {{"wall", paging::RunClock::kWall},
                                                          {"cpu", paging::RunClock::kCpu}};
  app.add_option("--clock", options->clock,
                 "Of all seconds: wall, or cpu: CPU time of this process, which with --threads 1 "
                 "hardly depends on what else the machine does")
      ->transform(CLI::CheckedTransformer(clocks).description(""))
      ->type_name("wall|cpu")
      ->default_str("wall");
  app.add_flag("--no-rates", options->no_rates,
               "Do not measure the prefill and decode rates that predict the gains");
}

void AddEngineFlags(CLI::App& app, PagingOptions* options) {
  SchedulerFlags& flags = options->scheduler;
  app.add_option("--pool-tokens", options->pool_tokens,
                 "Tokens that the KV cache holds, the same for all; 0: 2 x --max-model-len")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 30))
      ->capture_default_str();
  app.add_option("--max-model-len", flags.max_model_len,
                 "Tokens of one request at most, prompt plus generated; what contiguous-max "
                 "reserves")
      ->check(CLI::Range(2, 1 << 24))
      ->capture_default_str();
  app.add_option("--max-num-seqs", flags.max_num_seqs, "Sequences in one step at most")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--max-num-batched-tokens", flags.max_num_batched_tokens,
                 "Tokens in one step at most")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--max-prefill-chunk", flags.max_prefill_chunk,
                 "Tokens of one sequence in one step at most; 0: no bound of its own")
      ->check(CLI::Range(0, 1 << 24))
      ->capture_default_str();
  app.add_option("--kv-cache-dtype", flags.kv_cache_dtype,
                 "Element type of keys and values, as of octavo serve")
      ->capture_default_str();
  app.add_option("--kv-watermark", flags.kv_watermark,
                 "Share of the blocks that admission keeps free, with paged")
      ->check(CLI::Range(0.0, 0.99))
      ->capture_default_str();
  app.add_option("--threads", options->worker.device.threads,
                 "Compute threads; 0: one per physical core that affinity and cgroup allow")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_option("--dtype", options->worker.device.dtype,
                 "Activations inside matrix products, as of octavo serve")
      ->check(CLI::IsMember({"auto", "float32", "bfloat16", "int8"}))
      ->capture_default_str();
}

}  // namespace

CommandBody AddPagingCommand(CLI::App& app) {
  auto options = std::make_shared<PagingOptions>();
  options->scheduler.max_model_len = 2048;
  app.add_option("--model", options->scheduler.model_path,
                 "GGUF file or Hugging Face folder, computed in this process")
      ->required()
      ->type_name("PATH");
  AddWorkloadFlags(app, options.get());
  AddEngineFlags(app, options.get());
  app.add_flag("--json", options->json, "Print one JSON object");
  AddLogFlags(app, &options->log);
  return [options](Signals& signals) { return Bench(*options, signals); };
}

}  // namespace octavo::tools
