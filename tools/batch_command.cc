#include <unistd.h>

#include <cstdio>
#include <deque>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/bounded_queue.h"
#include "tools/answer_json.h"
#include "tools/batch_journal.h"
#include "tools/batch_line.h"
#include "tools/channel.h"
#include "tools/command.h"
#include "tools/generate_call.h"

namespace octavo::tools {
namespace {

struct BatchOptions {
  std::string target = kDefaultTarget;
  std::string input;
  std::string output;
  int concurrency = 64;
  double retry_seconds = 60;
};

// Sends the lines of a file with a bounded number in flight and writes each answer as it arrives.
// Runs on one thread; calls report through a queue.
class Batch {
 public:
  Batch(const BatchOptions& options, BatchJournal journal, std::istream& input)
      : options_(options),
        journal_(std::move(journal)),
        input_(input),
        stub_(v1::Generation::NewStub(Connect(options.target))),
        finished_(static_cast<size_t>(options.concurrency)) {}

  int Run(Signals& signals) {
    while (true) {
      while (static_cast<int>(calls_.size()) < options_.concurrency && StartNext()) {
      }
      if (calls_.empty() && retries_.empty() && at_end_) break;
      if (std::optional<Finished> done = finished_.Pop(absl::Milliseconds(50))) Settle(*done);
      if (!failure_.ok()) break;
      if (signals.Wait(absl::ZeroDuration()) != 0) {
        Drain();
        return 130;
      }
      ShowProgress(false);
    }
    Drain();
    ShowProgress(true);
    if (failure_.ok()) return 0;
    absl::FPrintF(stderr, "octavo batch: %s\n", failure_.message());
    return 1;
  }

 private:
  struct Pending {
    BatchLine line;
    absl::Time first_try = absl::InfinitePast();
    absl::Time not_before = absl::InfinitePast();
  };
  struct Call {
    Pending pending;
    Answer answer;
    std::unique_ptr<GenerateCall> call;
  };
  struct Finished {
    std::string label;
    grpc::Status status;
  };

  // False when nothing can be started now.
  bool StartNext() {
    if (!retries_.empty() && retries_.front().not_before <= absl::Now()) {
      Pending pending = std::move(retries_.front());
      retries_.pop_front();
      Start(std::move(pending));
      return true;
    }
    std::string text;
    while (!at_end_ && failure_.ok()) {
      if (!std::getline(input_, text)) {
        at_end_ = true;
        break;
      }
      ++line_number_;
      if (absl::StripAsciiWhitespace(text).empty()) continue;
      Pending pending{ParseBatchLine(text, line_number_)};
      if (!labels_.insert(pending.line.id).second) {
        pending.line.error = absl::InvalidArgumentError(
            absl::StrCat("id ", pending.line.id, " stands on an earlier line"));
        WriteError(pending.line.id, "INVALID_ARGUMENT", std::string(pending.line.error.message()));
        continue;
      }
      if (journal_.Answered(pending.line.id)) continue;
      if (!pending.line.error.ok()) {
        WriteError(pending.line.id, absl::StatusCodeToString(pending.line.error.code()),
                   std::string(pending.line.error.message()));
        continue;
      }
      Start(std::move(pending));
      return true;
    }
    return false;
  }

  void Start(Pending pending) {
    const std::string label = pending.line.id;
    auto call = std::make_unique<Call>();
    Call* raw = call.get();
    raw->pending = std::move(pending);
    if (raw->pending.first_try == absl::InfinitePast()) raw->pending.first_try = absl::Now();
    v1::GenerateRequest request = raw->pending.line.request;
    request.set_request_id(absl::StrCat(journal_.run_id(), "-", label));
    calls_[label] = std::move(call);
    raw->call = std::make_unique<GenerateCall>(
        *stub_, std::move(request), absl::InfiniteDuration(),
        [raw](const v1::GenerateResponse& response) { raw->answer.Add(response); },
        [this, label](const grpc::Status& status) {
          finished_.Push({label, status});
        });
  }

  void Settle(const Finished& done) {
    const auto at = calls_.find(done.label);
    Call& call = *at->second;
    if (done.status.ok()) {
      nlohmann::json json = call.answer.ToJson();
      json["id"] = done.label;
      Write(json);
      ++answered_;
    } else if (Retryable(done.status) &&
               absl::Now() - call.pending.first_try < absl::Seconds(options_.retry_seconds)) {
      call.pending.not_before = absl::Now() + RetryDelay(done.status, absl::Milliseconds(500));
      retries_.push_back(std::move(call.pending));
    } else {
      WriteError(done.label, CodeName(done.status.error_code()), done.status.error_message());
    }
    calls_.erase(at);
  }

  void WriteError(const std::string& label, const std::string& code, const std::string& message) {
    Write({{"id", label}, {"error", {{"code", code}, {"message", message}}}});
    ++errors_;
  }

  void Write(const nlohmann::json& json) {
    if (failure_.ok()) failure_ = journal_.Append(Dump(json));
  }

  // Cancels what is in flight and waits for it: calls must not outlive their owner.
  void Drain() {
    for (const auto& [label, call] : calls_) call->call->Cancel();
    while (!calls_.empty())
      if (std::optional<Finished> done = finished_.Pop()) calls_.erase(done->label);
  }

  void ShowProgress(bool last) {
    if (!isatty(STDERR_FILENO)) {
      if (last)
        absl::FPrintF(stderr, "%d answered, %d errors, %d from an earlier run\n", answered_,
                      errors_, static_cast<int>(journal_.num_answered()));
      return;
    }
    if (!last && absl::Now() - shown_ < absl::Milliseconds(200)) return;
    shown_ = absl::Now();
    absl::FPrintF(stderr, "\r\x1b[K%d answered, %d errors, %d in flight, %d to retry%s", answered_,
                  errors_, static_cast<int>(calls_.size()), static_cast<int>(retries_.size()),
                  last ? "\n" : "");
  }

  const BatchOptions& options_;
  BatchJournal journal_;
  std::istream& input_;
  std::unique_ptr<v1::Generation::Stub> stub_;
  BoundedQueue<Finished> finished_;
  std::map<std::string, std::unique_ptr<Call>> calls_;
  std::deque<Pending> retries_;
  std::set<std::string> labels_;
  absl::Status failure_;
  absl::Time shown_ = absl::InfinitePast();
  int64_t line_number_ = 0;
  int answered_ = 0;
  int errors_ = 0;
  bool at_end_ = false;
};

int RunBatch(const BatchOptions& options, Signals& signals) {
  std::ifstream file;
  if (options.input != "-") {
    file.open(options.input, std::ios::binary);
    if (!file) {
      absl::FPrintF(stderr, "octavo batch: cannot read %s\n", options.input);
      return 1;
    }
  }
  absl::StatusOr<BatchJournal> journal = BatchJournal::Open(options.output);
  if (!journal.ok()) {
    absl::FPrintF(stderr, "octavo batch: %s\n", journal.status().message());
    return 1;
  }
  Batch batch(options, *std::move(journal), options.input == "-" ? std::cin : file);
  return batch.Run(signals);
}

}  // namespace

CommandBody AddBatchCommand(CLI::App& app) {
  auto options = std::make_shared<BatchOptions>();
  app.add_option("--target", options->target, "Scheduler's HOST:PORT")->capture_default_str();
  app.add_option("--input", options->input, "File of prompts, one JSON object a line; - for stdin")
      ->required();
  app.add_option(
      "--output", options->output,
      "Append answers here; a rerun sends only what has no answer yet [default: stdout]");
  app.add_option("--concurrency", options->concurrency, "Requests in flight at most")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--retry-timeout", options->retry_seconds,
                 "Seconds to keep trying a line while the server is full or away")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.footer(
      "A line: {\"id\", \"prompt\" | \"prompt_token_ids\" | \"messages\", \"max_tokens\", "
      "\"temperature\", \"top_p\",\n\"top_k\", \"min_p\", \"seed\", \"n\", \"best_of\", "
      "\"ignore_eos\", \"logprobs\", \"cache_salt\", \"prefix_cache\", ...}. With "
      "\"use_beam_search\": true, \"beam_width\" (1 to 32),\n\"length_penalty\" (default 1) and "
      "\"early_stopping\" (true, false or \"never\"; default false) it is a beam search:\nits "
      "outputs come best first, each with a \"score\"; \"n\" limits how many (default: all "
      "beams).\nIts answer, as soon as it is there:\n{\"id\", \"outputs\": [{\"index\", "
      "\"token_ids\", \"text\", \"finish_reason\", \"logprobs\"}], \"prompt_tokens\",\n"
      "\"cached_tokens\", \"preemptions\"} or {\"id\", \"error\": {\"code\", \"message\"}}. "
      "Exit status 0 when every line was answered or refused.");
  return [options](Signals& signals) { return RunBatch(*options, signals); };
}

}  // namespace octavo::tools
