#include <algorithm>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/time/clock.h"
#include "nlohmann/json.hpp"
#include "tools/channel.h"
#include "tools/command.h"
#include "tools/generate_call.h"

namespace octavo::tools {
namespace {

struct BenchOptions {
  std::string target = kDefaultTarget;
  int streams = 32;
  int requests = 0;
  int prompt_tokens = 128;
  int output_tokens = 128;
  int shared_prefix_tokens = 0;
  uint32_t random_seed = 1;
  double timeout_seconds = 600;
  bool json = false;
};

// What one stream saw. Written by its call's thread, read after all calls ended.
struct Record {
  absl::Time sent;
  std::vector<absl::Time> tokens;  // arrival of each
  uint32_t preemptions = 0;
  grpc::Status status;
};

struct Spread {
  double min = 0;
  double median = 0;
  double p99 = 0;
};

Spread SpreadOf(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
  };
  return {values.front(), at(0.5), at(0.99)};
}

// Token ids drawn uniformly, so that prompts share nothing but the prefix asked for.
class Prompts {
 public:
  Prompts(const BenchOptions& options, uint32_t vocab_size)
      : options_(options), random_(options.random_seed), vocab_size_(vocab_size) {
    for (int i = 0; i < options.shared_prefix_tokens; ++i) prefix_.push_back(Draw());
  }
  v1::GenerateRequest Next() {
    v1::GenerateRequest request;
    v1::TokenIds* ids = request.mutable_token_ids();
    for (int i = 0; i < options_.prompt_tokens; ++i)
      ids->add_ids(i < static_cast<int>(prefix_.size()) ? prefix_[i] : Draw());
    request.set_max_tokens(options_.output_tokens);
    request.set_ignore_eos(true);
    request.mutable_sampling()->set_temperature(0);
    return request;
  }

 private:
  // The first ids are special tokens in most vocabularies.
  uint32_t Draw() { return 100 + random_() % (vocab_size_ - 100); }

  const BenchOptions& options_;
  std::mt19937 random_;
  const uint32_t vocab_size_;
  std::vector<uint32_t> prefix_;
};

struct Report {
  double wall_seconds = 0;
  int64_t output_tokens = 0;
  int failed = 0;
  int64_t preemptions = 0;
  Spread first_token_ms;
  Spread inter_token_ms;
  Spread stream_tokens_per_second;
  std::string first_error;
};

Report Summarise(const std::vector<Record>& records, absl::Duration wall) {
  Report report;
  report.wall_seconds = absl::ToDoubleSeconds(wall);
  std::vector<double> first;
  std::vector<double> between;
  std::vector<double> rate;
  for (const Record& record : records) {
    if (!record.status.ok()) {
      if (report.failed++ == 0) report.first_error = Describe(record.status);
      continue;
    }
    report.output_tokens += static_cast<int64_t>(record.tokens.size());
    report.preemptions += record.preemptions;
    if (record.tokens.empty()) continue;
    first.push_back(absl::ToDoubleMilliseconds(record.tokens.front() - record.sent));
    for (size_t i = 1; i < record.tokens.size(); ++i)
      between.push_back(absl::ToDoubleMilliseconds(record.tokens[i] - record.tokens[i - 1]));
    const double decode = absl::ToDoubleSeconds(record.tokens.back() - record.tokens.front());
    if (decode > 0) rate.push_back(static_cast<double>(record.tokens.size() - 1) / decode);
  }
  report.first_token_ms = SpreadOf(std::move(first));
  report.inter_token_ms = SpreadOf(std::move(between));
  report.stream_tokens_per_second = SpreadOf(std::move(rate));
  return report;
}

void PrintLine(const char* name, const Spread& spread) {
  absl::PrintF("%-26s %10.2f %10.2f %10.2f\n", name, spread.min, spread.median, spread.p99);
}

void Print(const BenchOptions& options, const Report& report) {
  absl::PrintF("%d streams, %d requests, %d prompt tokens (%d shared), %d output tokens\n",
               options.streams, options.requests, options.prompt_tokens,
               options.shared_prefix_tokens, options.output_tokens);
  absl::PrintF("%-26s %10s %10s %10s\n", "", "min", "median", "p99");
  PrintLine("first token, ms", report.first_token_ms);
  PrintLine("between tokens, ms", report.inter_token_ms);
  PrintLine("one stream, tokens/s", report.stream_tokens_per_second);
  absl::PrintF("all streams: %.1f output tokens/s over %.2f s; %d preemptions, %d failed\n",
               static_cast<double>(report.output_tokens) / report.wall_seconds, report.wall_seconds,
               report.preemptions, report.failed);
  if (report.failed > 0) absl::PrintF("first failure: %s\n", report.first_error);
}

nlohmann::json ToJson(const Spread& spread) {
  return {{"min", spread.min}, {"median", spread.median}, {"p99", spread.p99}};
}

void PrintJson(const BenchOptions& options, const Report& report) {
  const nlohmann::json json = {
      {"streams", options.streams},
      {"requests", options.requests},
      {"prompt_tokens", options.prompt_tokens},
      {"shared_prefix_tokens", options.shared_prefix_tokens},
      {"output_tokens_per_request", options.output_tokens},
      {"first_token_ms", ToJson(report.first_token_ms)},
      {"inter_token_ms", ToJson(report.inter_token_ms)},
      {"stream_tokens_per_second", ToJson(report.stream_tokens_per_second)},
      {"output_tokens", report.output_tokens},
      {"output_tokens_per_second", static_cast<double>(report.output_tokens) / report.wall_seconds},
      {"wall_seconds", report.wall_seconds},
      {"preemptions", report.preemptions},
      {"failed", report.failed},
  };
  absl::PrintF("%s\n", json.dump());
}

// Keeps `streams` requests running until all have ended: each stream sends its next one when its
// last one is done.
class Load {
 public:
  Load(const BenchOptions& options, v1::Generation::Stub& stub, Prompts& prompts)
      : options_(options), stub_(stub), left_(options.requests) {
    for (int i = 0; i < options.requests; ++i) requests_.push_back(prompts.Next());
    records_.resize(requests_.size());
    calls_.resize(requests_.size());
  }

  std::vector<Record> Run() {
    for (int i = 0; i < options_.streams; ++i) StartNext();
    left_.Wait();
    return std::move(records_);
  }

 private:
  void StartNext() {
    absl::MutexLock lock(&mutex_);
    if (next_ == requests_.size()) return;
    const size_t index = next_++;
    Record& record = records_[index];
    record.sent = absl::Now();
    calls_[index] = std::make_unique<GenerateCall>(
        stub_, requests_[index], absl::Seconds(options_.timeout_seconds),
        [&record](const v1::GenerateResponse& response) {
          record.tokens.insert(record.tokens.end(), response.token_ids_size(), absl::Now());
          if (response.has_usage()) record.preemptions = response.usage().preemptions();
        },
        [this, &record](const grpc::Status& status) {
          record.status = status;
          StartNext();
          left_.DecrementCount();
        });
  }

  const BenchOptions& options_;
  v1::Generation::Stub& stub_;
  std::vector<v1::GenerateRequest> requests_;
  std::vector<Record> records_;
  absl::BlockingCounter left_;
  absl::Mutex mutex_;
  size_t next_ = 0;
  std::vector<std::unique_ptr<GenerateCall>> calls_;
};

int Bench(BenchOptions options) {
  if (options.requests == 0) options.requests = options.streams;
  if (options.shared_prefix_tokens > options.prompt_tokens) {
    absl::FPrintF(stderr,
                  "octavo bench: --shared-prefix is %d; it must be <= --prompt-tokens, %d\n",
                  options.shared_prefix_tokens, options.prompt_tokens);
    return 2;
  }
  auto stub = v1::Generation::NewStub(Connect(options.target));
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(5)));
  v1::GetModelResponse model;
  const grpc::Status status = stub->GetModel(&context, v1::GetModelRequest(), &model);
  if (!status.ok()) {
    absl::FPrintF(stderr, "octavo bench: %s: %s\n", options.target, Describe(status));
    return 1;
  }
  if (model.vocab_size() <= 100) {
    absl::FPrintF(stderr, "octavo bench: the vocabulary has %d tokens; more than 100 are needed\n",
                  model.vocab_size());
    return 1;
  }
  Prompts prompts(options, model.vocab_size());
  Load load(options, *stub, prompts);
  const absl::Time start = absl::Now();
  const std::vector<Record> records = load.Run();
  const Report report = Summarise(records, absl::Now() - start);
  options.json ? PrintJson(options, report) : Print(options, report);
  return report.failed == 0 ? 0 : 1;
}

}  // namespace

CommandBody AddBenchCommand(CLI::App& app) {
  auto options = std::make_shared<BenchOptions>();
  app.add_option("--target", options->target, "Scheduler's HOST:PORT")->capture_default_str();
  app.add_option("--streams", options->streams, "Requests running at once")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--requests", options->requests, "Requests in all; 0: as many as streams")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  app.add_option("--prompt-tokens", options->prompt_tokens, "Length of each prompt, tokens")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_option("--output-tokens", options->output_tokens, "Tokens generated per request")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_option("--shared-prefix", options->shared_prefix_tokens,
                 "Leading prompt tokens that all requests share")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--random-seed", options->random_seed, "Seed of the prompts' token ids")
      ->capture_default_str();
  app.add_option("--timeout", options->timeout_seconds, "Seconds a request may take")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("--json", options->json, "Print one JSON object");
  CLI::App* paging = app.add_subcommand(
      "paging",
      "Run the same requests with paged and with contiguous KV allocation, on a CPU worker in this "
      "process, and compare");
  const CommandBody paging_body = AddPagingCommand(*paging);
  CLI::App* perplexity =
      app.add_subcommand("perplexity", "Measure the perplexity of a text under a model");
  const CommandBody perplexity_body = AddPerplexityCommand(*perplexity);
  return [options, paging, paging_body, perplexity, perplexity_body](Signals& signals) {
    if (paging->parsed()) return paging_body(signals);
    return perplexity->parsed() ? perplexity_body(signals) : Bench(*options);
  };
}

}  // namespace octavo::tools
