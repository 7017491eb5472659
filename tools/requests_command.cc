#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "grpcpp/grpcpp.h"
#include "octavo/v1/admin.grpc.pb.h"
#include "tools/channel.h"
#include "tools/command.h"

namespace octavo::tools {
namespace {

constexpr absl::Duration kCallTimeout = absl::Seconds(10);  // it waits for a step to end

struct RequestsOptions {
  std::string target = kDefaultTarget;
  std::string request_id;
  bool blocks = false;
};

void PrintRow(const v1::RequestInfo& request) {
  absl::PrintF("%-28s %-7s %8.1f %7d %7d %7d %9d %5d/%d %7d %11d\n", request.request_id(),
               request.running() ? "running" : "waiting", request.age_seconds(),
               request.prompt_tokens(), request.cached_tokens(), request.computed_tokens(),
               request.generated_tokens(), request.active_choices(), request.choices(),
               request.blocks(), request.preemptions());
}

void PrintHeader() {
  absl::PrintF("%-28s %-7s %8s %7s %7s %7s %9s %7s %7s %11s\n", "request", "state", "age s",
               "prompt", "cached", "computed", "generated", "choices", "blocks", "preemptions");
}

void PrintTable(const v1::GetBlockTableResponse& table) {
  for (const v1::ChoiceBlockTable& choice : table.choices()) {
    absl::PrintF("choice %d: %d tokens in %d blocks of %d\n", choice.index(),
                 choice.computed_tokens(), choice.blocks_size(), table.block_size());
    for (const v1::BlockTableEntry& entry : choice.blocks()) {
      absl::PrintF(" %d", entry.block());
      if (entry.holders() > 1) absl::PrintF("x%d", entry.holders());
      if (entry.published()) absl::PrintF("*");
    }
    absl::PrintF("\n");
  }
}

class Operator {
 public:
  explicit Operator(const RequestsOptions& options)
      : options_(options), stub_(v1::Admin::NewStub(Connect(options.target))) {}

  int List() {
    grpc::ClientContext context;
    Limit(&context);
    v1::ListRequestsResponse response;
    if (!Succeeded(stub_->ListRequests(&context, {}, &response))) return 1;
    PrintHeader();
    for (const v1::RequestInfo& request : response.requests()) PrintRow(request);
    if (response.total() > static_cast<uint64_t>(response.requests_size()))
      absl::PrintF("... of %d\n", response.total());
    return 0;
  }

  int Explain() {
    grpc::ClientContext context;
    Limit(&context);
    v1::ExplainRequestRequest request;
    request.set_request_id(options_.request_id);
    v1::ExplainRequestResponse response;
    if (!Succeeded(stub_->ExplainRequest(&context, request, &response))) return 1;
    PrintHeader();
    PrintRow(response.request());
    absl::PrintF("%s\n", response.text());
    return options_.blocks ? Blocks() : 0;
  }

 private:
  int Blocks() {
    grpc::ClientContext context;
    Limit(&context);
    v1::GetBlockTableRequest request;
    request.set_request_id(options_.request_id);
    v1::GetBlockTableResponse response;
    if (!Succeeded(stub_->GetBlockTable(&context, request, &response))) return 1;
    PrintTable(response);
    return 0;
  }

  static void Limit(grpc::ClientContext* context) {
    context->set_deadline(absl::ToChronoTime(absl::Now() + kCallTimeout));
  }

  bool Succeeded(const grpc::Status& status) const {
    if (!status.ok())
      absl::FPrintF(stderr, "octavo requests: %s: %s\n", options_.target, Describe(status));
    return status.ok();
  }

  const RequestsOptions& options_;
  std::unique_ptr<v1::Admin::Stub> stub_;
};

}  // namespace

CommandBody AddRequestsCommand(CLI::App& app) {
  auto options = std::make_shared<RequestsOptions>();
  app.add_option("--target", options->target, "Scheduler's HOST:PORT")->capture_default_str();
  CLI::Option* id = app.add_option("request", options->request_id,
                                   "Say of this one why it waits; default: list all");
  app.add_flag("--blocks", options->blocks,
               "Print its block tables too: \"7x3*\" is block 7, held by 3 tables, in the prefix "
               "cache")
      ->needs(id);
  return [options](Signals&) {
    Operator op(*options);
    return options->request_id.empty() ? op.List() : op.Explain();
  };
}

}  // namespace octavo::tools
