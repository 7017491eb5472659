// octavo-scheduler: serves one model to many clients; its workers compute.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "common/heap.h"
#include "common/program/program.h"
#include "common/rpc/health_client.h"
#include "common/rpc/server.h"
#include "common/status_macros.h"
#include "scheduler/transport/flags.h"
#include "scheduler/transport/remote_executor.h"
#include "scheduler/transport/scheduler_server.h"
#include "scheduler/transport/serving.h"

namespace octavo {
namespace {

constexpr int kExitError = 1;
constexpr int kExitUsage = 2;
constexpr absl::Duration kHealthTimeout = absl::Seconds(2);

// A listener on all addresses is asked on the loopback one.
std::string ProbeTarget(const SchedulerFlags& flags) {
  const bool any = flags.host == "0.0.0.0" || flags.host == "::";
  return JoinHostPort(any ? "127.0.0.1" : flags.host, flags.port);
}

absl::Status Serve(const SchedulerFlags& flags, Signals& signals) {
  OCTAVO_ASSIGN_OR_RETURN(ServedModel model, LoadServedModel(flags.model_path, flags.load_format));
  std::vector<std::unique_ptr<Executor>> executors;
  for (const std::string& target : flags.workers)
    executors.push_back(std::make_unique<RemoteExecutor>(RemoteExecutorOptions{.target = target}));
  OCTAVO_ASSIGN_OR_RETURN(const std::unique_ptr<SchedulerServer> server,
                          SchedulerServer::Start(flags, std::move(model), std::move(executors)));
  return ServeUntilSignal(*server, flags, signals);
}

void CheckUsage(const SchedulerFlags& flags) {
  if (flags.health_check) return;
  if (flags.model_path.empty()) throw CLI::RequiredError("--model");
  if (flags.workers.empty()) throw CLI::RequiredError("--workers");
  for (const std::string& worker : flags.workers)
    if (const auto parsed = ParseHostPort(worker); !parsed.ok())
      throw CLI::ValidationError("--workers", std::string(parsed.status().message()));
}

int Main(int argc, char** argv) {
  KeepFreedHeap();
  CLI::App app(
      "The deciding side of Octavo: admits requests, pages the KV cache, plans every step, and "
      "streams answers to clients over gRPC.");
  SchedulerFlags flags;
  AddSchedulerFlags(app, &flags, /*embedded=*/false);
  try {
    app.parse(argc, argv);
    CheckUsage(flags);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  absl::Status status;
  if (flags.health_check) {
    status = CheckHealth(ProbeTarget(flags), kGenerationServiceName, kHealthTimeout);
  } else {
    Signals signals;
    InstallLogSink(flags.log);
    status = Serve(flags, signals);
  }
  if (status.ok()) return 0;
  std::fprintf(stderr, "octavo-scheduler: %s\n", std::string(status.message()).c_str());
  return kExitError;
}

}  // namespace
}  // namespace octavo

int main(int argc, char** argv) { return octavo::Main(argc, argv); }
