// octavo-worker: computes what a scheduler's plans say, for one model on one device.
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/byte_size.h"
#include "common/heap.h"
#include "common/log.h"
#include "common/program/program.h"
#include "common/rpc/health_client.h"
#include "common/rpc/server.h"
#include "common/status_macros.h"
#include "worker/runtime/local_executor.h"
#include "worker/transport/flags.h"
#include "worker/transport/worker_service.h"

namespace octavo {
namespace {

constexpr int kExitError = 1;
constexpr int kExitUsage = 2;
constexpr absl::Duration kHealthTimeout = absl::Seconds(2);
constexpr absl::Duration kShutdownGrace = absl::Seconds(5);
constexpr absl::Duration kSignalPoll = absl::Milliseconds(50);
constexpr absl::Duration kProgressLogInterval = absl::Seconds(1);

// A listener on all addresses is asked on the loopback one.
std::string ProbeTarget(const HostPort& listen) {
  const bool any = listen.host == "0.0.0.0" || listen.host == "::";
  return JoinHostPort(any ? "127.0.0.1" : listen.host, listen.port);
}

// Appears whole or not at all: whoever waits for it may read it at once.
absl::Status WritePortFile(const std::string& path, const std::string& address) {
  const std::string draft = path + ".new";
  std::ofstream(draft) << "grpc=" << address << "\n";
  if (std::rename(draft.c_str(), path.c_str()) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot write --port-file ", path));
}

// Until the weights are resident: true. False: a signal came first.
absl::StatusOr<bool> AwaitLoaded(LocalExecutor& executor, Signals& signals) {
  absl::Time next_log = absl::Now() + kProgressLogInterval;
  while (true) {
    const LoadState state = executor.AwaitLoad(0, absl::ZeroDuration());
    if (state.done) {
      OCTAVO_RETURN_IF_ERROR(state.status);
      return true;
    }
    if (absl::Now() >= next_log) {
      OCTAVO_LOG(kInfo, "loading ", FormatByteSize(state.progress.done_bytes), " of ",
                 FormatByteSize(state.progress.total_bytes));
      next_log += kProgressLogInterval;
    }
    if (signals.Wait(kSignalPoll) != 0) return false;
  }
}

absl::Status Serve(const WorkerFlags& flags, const HostPort& listen, Signals& signals) {
  OCTAVO_ASSIGN_OR_RETURN(std::unique_ptr<LocalExecutor> executor,
                          LocalExecutor::Create(ExecutorOptions(flags, flags.listen)));
  WorkerService service(*executor);
  RpcServerOptions options;
  options.host = listen.host;
  options.port = listen.port;
  options.health_services = {kWorkerServiceName};
  OCTAVO_ASSIGN_OR_RETURN(std::unique_ptr<RpcServer> server, RpcServer::Start(options, {&service}));
  OCTAVO_LOG(kInfo, "octavo-worker ", Version(), " listens on ", server->address());
  if (!flags.port_file.empty())
    OCTAVO_RETURN_IF_ERROR(WritePortFile(flags.port_file, server->address()));
  executor->BeginLoad();

  OCTAVO_ASSIGN_OR_RETURN(const bool loaded, AwaitLoaded(*executor, signals));
  if (loaded) {
    server->SetServing(kWorkerServiceName, true);
    OCTAVO_ASSIGN_OR_RETURN(const WorkerDescription worker, executor->Describe());
    OCTAVO_LOG(kInfo, "worker is ready listen=", server->address(), " model=", worker.model_name,
               " path=", worker.numeric_path, " rank=", worker.rank, " of ", worker.world_size);
    signals.Wait();
  }
  signals.ExitOnNext();
  OCTAVO_LOG(kInfo, "worker stops after the step in flight; a second signal ends it at once");
  server->SetServing(kWorkerServiceName, false);
  service.Stop();
  server->Shutdown(kShutdownGrace);
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  KeepFreedHeap();
  CLI::App app(
      "The compute side of Octavo: holds a model's weights and KV blocks, and executes the "
      "steps of one scheduler.");
  WorkerFlags flags;
  AddWorkerFlags(app, &flags, /*embedded=*/false);
  try {
    app.parse(argc, argv);
    if (!flags.health_check && flags.model_path.empty()) throw CLI::RequiredError("--model");
    if (flags.place.rank >= flags.place.size)
      throw CLI::ValidationError(
          "--tensor-parallel-rank",
          absl::StrCat(flags.place.rank, " must be less than --tensor-parallel-size, which is ",
                       flags.place.size));
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  const absl::StatusOr<HostPort> listen = ParseHostPort(flags.listen);
  if (!listen.ok()) {
    std::fprintf(stderr, "octavo-worker: --listen: %s\n",
                 std::string(listen.status().message()).c_str());
    return kExitUsage;
  }
  absl::Status status;
  if (flags.health_check) {
    status = CheckHealth(ProbeTarget(*listen), kWorkerServiceName, kHealthTimeout);
  } else {
    Signals signals;
    InstallLogSink(flags.log);
    status = Serve(flags, *listen, signals);
  }
  if (status.ok()) return 0;
  std::fprintf(stderr, "octavo-worker: %s\n", std::string(status.message()).c_str());
  return kExitError;
}

}  // namespace
}  // namespace octavo

int main(int argc, char** argv) { return octavo::Main(argc, argv); }
