#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/status_macros.h"
#include "octavo/v1/generation.grpc.pb.h"
#include "tools/channel.h"
#include "tools/command.h"
#include "tools/local_server.h"
#include "tools/perplexity.h"

namespace octavo::tools {
namespace {

struct PerplexityOptions {
  std::string target = kDefaultTarget;
  std::string reference;
  std::string text;
  int64_t window = 1024;
  int64_t windows = 0;
  double timeout_seconds = 600;
  bool json = false;
  SchedulerFlags scheduler;  // with --model
  WorkerFlags worker;
};

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string content(std::istreambuf_iterator<char>(file), {});
  if (!file.good() && !file.eof()) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  return content;
}

absl::Status ToStatus(const grpc::Status& status) {
  return status.ok() ? absl::OkStatus() : absl::UnknownError(Describe(status));
}

// One measurement against one server.
class Measurement {
 public:
  Measurement(const PerplexityOptions& options, const std::string& target)
      : options_(options), stub_(v1::Generation::NewStub(Connect(target))) {}

  absl::Status Run() {
    grpc::ClientContext context;
    SetDeadline(&context);
    OCTAVO_RETURN_IF_ERROR(ToStatus(stub_->GetModel(&context, v1::GetModelRequest(), &model_)));
    OCTAVO_ASSIGN_OR_RETURN(PerplexityText text, Text());
    if (options_.windows > 0 && options_.windows < static_cast<int64_t>(text.windows.size()))
      text.windows.resize(static_cast<size_t>(options_.windows));
    const absl::Time start = absl::Now();
    for (PerplexityWindow& window : text.windows) {
      OCTAVO_ASSIGN_OR_RETURN(window.nll, NegativeLogLikelihood(text, window));
      windows_.push_back(window);
    }
    seconds_ = absl::ToDoubleSeconds(absl::Now() - start);
    return absl::OkStatus();
  }

  void Print() const {
    if (options_.json) {
      nlohmann::json json = ToJson(windows_);
      json["kv_cache_dtype"] = model_.kv_cache_dtype();
      json["numeric_path"] = model_.dtype();
      json["seconds"] = seconds_;
      absl::PrintF("%s\n", json.dump());
      return;
    }
    const PerplexitySummary summary = Summarise(windows_);
    absl::PrintF(
        "%s, KV %s: perplexity %.4f (total NLL %.4f over %d tokens, %d windows) in %.1f s\n",
        model_.dtype(), model_.kv_cache_dtype(), summary.perplexity, summary.total_nll,
        summary.scored, windows_.size(), seconds_);
    if (summary.change.has_value())
      absl::PrintF("reference %.4f: %+.4f %%\n", *summary.reference_perplexity,
                   *summary.change * 100);
  }

 private:
  void SetDeadline(grpc::ClientContext* context) const {
    context->set_deadline(
        absl::ToChronoTime(absl::Now() + absl::Seconds(options_.timeout_seconds)));
  }

  absl::StatusOr<PerplexityText> Text() {
    if (!options_.reference.empty()) {
      OCTAVO_ASSIGN_OR_RETURN(const std::string json, ReadFile(options_.reference));
      return ParseReference(json);
    }
    v1::TokenizeRequest request;
    OCTAVO_ASSIGN_OR_RETURN(*request.mutable_text(), ReadFile(options_.text));
    v1::TokenizeResponse response;
    grpc::ClientContext context;
    SetDeadline(&context);
    OCTAVO_RETURN_IF_ERROR(ToStatus(stub_->Tokenize(&context, request, &response)));
    PerplexityText text =
        CutText({response.token_ids().begin(), response.token_ids().end()}, options_.window);
    if (text.windows.empty())
      return absl::InvalidArgumentError(
          absl::StrCat(options_.text, " has ", text.ids.size(), " tokens; at least 2 are needed"));
    return text;
  }

  absl::StatusOr<double> NegativeLogLikelihood(const PerplexityText& text,
                                               const PerplexityWindow& window) {
    v1::GenerateRequest request;
    const auto first = text.ids.begin() + window.start;
    request.mutable_token_ids()->mutable_ids()->Add(first, first + window.tokens);
    request.set_max_tokens(1);
    request.set_ignore_eos(true);
    request.mutable_sampling()->set_temperature(0);
    request.mutable_sampling()->set_prompt_logprobs(0);
    grpc::ClientContext context;
    SetDeadline(&context);
    const auto reader = stub_->Generate(&context, request);
    v1::GenerateResponse response;
    double nll = 0;
    int64_t scored = 0;
    bool as_sent = true;
    while (reader->Read(&response)) {
      for (const v1::TokenLogprob& token : response.prompt_logprobs()) {
        as_sent = as_sent && ++scored < window.tokens && token.token_id() == first[scored];
        nll -= double{token.logprob()};
      }
    }
    OCTAVO_RETURN_IF_ERROR(ToStatus(reader->Finish()));
    if (!as_sent || scored != window.tokens - 1)
      return absl::InternalError(absl::StrCat("the server scored ", scored,
                                              " tokens of a window of ", window.tokens,
                                              ", or other tokens"));
    return nll;
  }

  const PerplexityOptions& options_;
  const std::unique_ptr<v1::Generation::Stub> stub_;
  v1::GetModelResponse model_;
  std::vector<PerplexityWindow> windows_;
  double seconds_ = 0;
};

absl::Status Measure(const PerplexityOptions& options) {
  std::unique_ptr<SchedulerServer> server;
  std::string target = options.target;
  if (!options.scheduler.model_path.empty()) {
    SchedulerFlags flags = options.scheduler;
    flags.port = flags.metrics_port = 0;
    OCTAVO_ASSIGN_OR_RETURN(server, StartLocalServer(flags, options.worker));
    OCTAVO_RETURN_IF_ERROR(server->WaitUntilReady(absl::Seconds(options.timeout_seconds)));
    target = server->address();
  }
  Measurement measurement(options, target);
  OCTAVO_RETURN_IF_ERROR(measurement.Run());
  measurement.Print();
  return absl::OkStatus();
}

}  // namespace

CommandBody AddPerplexityCommand(CLI::App& app) {
  auto options = std::make_shared<PerplexityOptions>();
  app.add_option("--target,--endpoint", options->target, "Scheduler's HOST:PORT, without --model")
      ->capture_default_str();
  CLI::Option* reference =
      app.add_option("--reference", options->reference,
                     "JSON file with \"ids\" and \"windows\" [{start, tokens, nll}]: what to score "
                     "and what to compare with")
          ->type_name("PATH");
  app.add_option("--text", options->text, "UTF-8 text to score instead")
      ->type_name("PATH")
      ->excludes(reference);
  app.add_option("--window", options->window,
                 "Tokens of a window of --text; each starts with an empty context")
      ->check(CLI::Range(int64_t{2}, int64_t{1'000'000}))
      ->capture_default_str();
  app.add_option("--windows", options->windows, "Windows to score at most; 0: all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--timeout", options->timeout_seconds, "Seconds that a window may take")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("--json", options->json, "Print one JSON object");
  app.footer(
      "With --model the scheduler and a CPU worker run in this process, with the flags of `octavo "
      "serve`.");
  AddSchedulerFlags(app, &options->scheduler, /*embedded=*/true);
  AddWorkerFlags(app, &options->worker, /*embedded=*/true);
  AddLogFlags(app, &options->scheduler.log);
  return [options, &app](Signals&) {
    if (options->reference.empty() && options->text.empty()) {
      absl::FPrintF(stderr, "octavo bench perplexity: --reference or --text is required\n%s\n",
                    app.help());
      return 2;
    }
    InstallLogSink(options->scheduler.log);
    const absl::Status status = Measure(*options);
    if (status.ok()) return 0;
    absl::FPrintF(stderr, "octavo bench perplexity: %s\n", status.message());
    return 1;
  };
}

}  // namespace octavo::tools
