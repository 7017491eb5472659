#include <atomic>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "grpcpp/grpcpp.h"
#include "octavo/v1/generation.grpc.pb.h"
#include "tools/answer_json.h"
#include "tools/channel.h"
#include "tools/command.h"
#include "tools/request_options.h"

namespace octavo::tools {
namespace {

struct GenerateOptions {
  std::string target = kDefaultTarget;
  std::string prompt;
  std::string system;
  bool chat = false;
  bool json = false;
  bool parse_special = false;
  double timeout_seconds = 0;
  RequestOptions request;
};

v1::GenerateRequest BuildRequest(const GenerateOptions& options) {
  v1::GenerateRequest request;
  Fill(options.request, &request);
  request.set_parse_special(options.parse_special);
  if (!options.chat) {
    request.set_text(options.prompt);
    return request;
  }
  if (!options.system.empty()) {
    v1::ChatMessage* message = request.mutable_chat()->add_messages();
    message->set_role("system");
    message->set_content(options.system);
  }
  v1::ChatMessage* message = request.mutable_chat()->add_messages();
  message->set_role("user");
  message->set_content(options.prompt);
  return request;
}

// Cancels the call when the user interrupts, so that the server frees its blocks at once.
class Interrupt {
 public:
  Interrupt(Signals& signals, grpc::ClientContext& context)
      : watcher_([this, &signals, &context] {
          while (!done_)
            if (signals.Wait(absl::Milliseconds(100)) != 0) {
              interrupted_ = true;
              context.TryCancel();
            }
        }) {}
  ~Interrupt() {
    done_ = true;
    watcher_.join();
  }
  bool interrupted() const { return interrupted_; }

 private:
  std::atomic<bool> done_{false};
  std::atomic<bool> interrupted_{false};
  std::thread watcher_;
};

// `generated`: tokens of all choices.
void PrintSpeed(const v1::Usage& usage, uint32_t generated, absl::Duration first,
                absl::Duration total) {
  const double decode_seconds = absl::ToDoubleSeconds(total - first);
  const uint32_t decoded = generated > 0 ? generated - 1 : 0;
  absl::FPrintF(stderr, "[%d prompt", usage.prompt_tokens());
  if (usage.cached_tokens() > 0) absl::FPrintF(stderr, " (%d cached)", usage.cached_tokens());
  absl::FPrintF(stderr, " + %d generated tokens; first after %.0f ms", generated,
                absl::ToDoubleMilliseconds(first));
  if (decoded > 0 && decode_seconds > 0)
    absl::FPrintF(stderr, "; then %.1f tokens/s", decoded / decode_seconds);
  absl::FPrintF(stderr, "]\n");
}

// Choices that arrived interleaved, one after the other.
void PrintChoices(const Answer& answer) {
  for (const auto& [index, text] : answer.Texts()) {
    absl::PrintF("%s--- choice %d\n", index == 0 ? "" : "\n", index);
    std::fwrite(text.data(), 1, text.size(), stdout);
  }
}

int Generate(const GenerateOptions& options, Signals& signals) {
  auto stub = v1::Generation::NewStub(Connect(options.target));
  grpc::ClientContext context;
  if (options.timeout_seconds > 0)
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(options.timeout_seconds)));
  Interrupt interrupt(signals, context);

  const absl::Time start = absl::Now();
  absl::Duration first;
  Answer answer;
  v1::Usage usage;
  std::string request_id;
  v1::GenerateResponse response;
  const bool several = options.request.n.value_or(1) > 1;
  auto reader = stub->Generate(&context, BuildRequest(options));
  while (reader->Read(&response)) {
    if (first == absl::ZeroDuration() && response.token_ids_size() > 0) first = absl::Now() - start;
    request_id = response.request_id();
    answer.Add(response);
    if (response.has_usage()) usage = response.usage();
    if (options.json || several) continue;
    std::fwrite(response.text().data(), 1, response.text().size(), stdout);
    std::fflush(stdout);
  }
  const grpc::Status status = reader->Finish();
  if (!options.json && several) PrintChoices(answer);
  if (!options.json) {
    std::fputc('\n', stdout);
    std::fflush(stdout);  // before the speed line on stderr
  }
  if (!status.ok()) {
    if (interrupt.interrupted()) return 130;
    absl::FPrintF(stderr, "octavo generate: %s: %s\n", options.target, Describe(status));
    return 1;
  }
  if (options.json) {
    nlohmann::json json = answer.ToJson();
    json["request_id"] = request_id;
    absl::PrintF("%s\n", Dump(json));
  } else {
    PrintSpeed(usage, answer.generated_tokens(), first, absl::Now() - start);
  }
  return 0;
}

}  // namespace

CommandBody AddGenerateCommand(CLI::App& app) {
  auto options = std::make_shared<GenerateOptions>();
  app.add_option("--target", options->target, "Scheduler's HOST:PORT")->capture_default_str();
  app.add_option("prompt", options->prompt, "The prompt; read from standard input when absent");
  app.add_flag("--chat", options->chat,
               "Send the prompt as a user's message in the model's template");
  app.add_option("--system", options->system, "System message of the chat")->needs("--chat");
  app.add_flag("--parse-special", options->parse_special,
               "Turn the texts of special tokens in the prompt into those tokens");
  app.add_flag("--json", options->json,
               "Print one JSON object at the end instead of streaming text");
  app.add_option("--timeout", options->timeout_seconds, "Give up after this many seconds; 0: never")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  AddRequestOptions(app, &options->request);
  return [options, prompt = app.get_option("prompt")](Signals& signals) {
    if (prompt->count() == 0) options->prompt.assign(std::istreambuf_iterator<char>(std::cin), {});
    return Generate(*options, signals);
  };
}

}  // namespace octavo::tools
