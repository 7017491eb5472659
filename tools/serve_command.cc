#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "scheduler/transport/flags.h"
#include "scheduler/transport/scheduler_server.h"
#include "scheduler/transport/serving.h"
#include "tools/command.h"
#include "tools/local_server.h"
#include "tools/worker_processes.h"
#include "worker/transport/flags.h"

namespace octavo::tools {
namespace {

struct ServeOptions {
  SchedulerFlags scheduler;
  WorkerFlags worker;
};

absl::Status ServeOnProcesses(const ServeOptions& options, Signals& signals) {
  WorkerFlags flags = options.worker;
  flags.model_path = options.scheduler.model_path;
  flags.load_format = options.scheduler.load_format;
  flags.log = options.scheduler.log;
  OCTAVO_ASSIGN_OR_RETURN(const std::unique_ptr<WorkerProcesses> workers,
                          WorkerProcesses::Start(flags));
  OCTAVO_ASSIGN_OR_RETURN(const std::unique_ptr<SchedulerServer> server,
                          StartServerOf(workers->addresses(), options.scheduler));
  return ServeUntilSignal(*server, options.scheduler, signals,
                          [&workers] { return workers->Check(); });
}

absl::Status Serve(const ServeOptions& options, Signals& signals) {
  if (options.worker.place.size > 1) return ServeOnProcesses(options, signals);
  OCTAVO_ASSIGN_OR_RETURN(const std::unique_ptr<SchedulerServer> server,
                          StartLocalServer(options.scheduler, options.worker));
  return ServeUntilSignal(*server, options.scheduler, signals);
}

}  // namespace

CommandBody AddServeCommand(CLI::App& app) {
  auto options = std::make_shared<ServeOptions>();
  AddSchedulerFlags(app, &options->scheduler, /*embedded=*/true);
  AddWorkerFlags(app, &options->worker, /*embedded=*/true);
  app.add_option("--tensor-parallel-size", options->worker.place.size,
                 "Worker processes that share the model and divide --threads between them, instead "
                 "of a worker inside this process; memory flags are for each of them")
      ->check(CLI::Range(1, kMaxWorldSize))
      ->capture_default_str();
  AddCommunicatorTimeoutFlag(app, &options->worker);
  AddLogFlags(app, &options->scheduler.log);
  return [options, &app](Signals& signals) {
    if (options->scheduler.model_path.empty()) {
      absl::FPrintF(stderr, "octavo serve: --model is required\n%s\n", app.help());
      return 2;
    }
    InstallLogSink(options->scheduler.log);
    const absl::Status status = Serve(*options, signals);
    if (status.ok()) return 0;
    absl::FPrintF(stderr, "octavo serve: %s\n", status.message());
    return 1;
  };
}

}  // namespace octavo::tools
