#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "scheduler/transport/flags.h"
#include "scheduler/transport/scheduler_server.h"
#include "scheduler/transport/serving.h"
#include "tools/command.h"
#include "worker/runtime/local_executor.h"
#include "worker/transport/flags.h"

namespace octavo::tools {
namespace {

struct ServeOptions {
  SchedulerFlags scheduler;
  WorkerFlags worker;
};

absl::Status Serve(const ServeOptions& options, Signals& signals) {
  OCTAVO_ASSIGN_OR_RETURN(ServedModel model, LoadServedModel(options.scheduler.model_path));
  OCTAVO_ASSIGN_OR_RETURN(std::unique_ptr<LocalExecutor> worker,
                          LocalExecutor::Create(ExecutorOptions(options.worker, "in-process")));
  worker->BeginLoad();
  std::vector<std::unique_ptr<Executor>> executors;
  executors.push_back(std::move(worker));
  OCTAVO_ASSIGN_OR_RETURN(
      const std::unique_ptr<SchedulerServer> server,
      SchedulerServer::Start(options.scheduler, std::move(model), std::move(executors)));
  return ServeUntilSignal(*server, options.scheduler, signals);
}

}  // namespace

CommandBody AddServeCommand(CLI::App& app) {
  auto options = std::make_shared<ServeOptions>();
  AddSchedulerFlags(app, &options->scheduler, /*embedded=*/true);
  AddWorkerFlags(app, &options->worker, /*embedded=*/true);
  AddLogFlags(app, &options->scheduler.log);
  return [options, &app](Signals& signals) {
    if (options->scheduler.model_path.empty()) {
      absl::FPrintF(stderr, "octavo serve: --model is required\n%s\n", app.help());
      return 2;
    }
    options->worker.model_path = options->scheduler.model_path;
    InstallLogSink(options->scheduler.log);
    const absl::Status status = Serve(*options, signals);
    if (status.ok()) return 0;
    absl::FPrintF(stderr, "octavo serve: %s\n", status.message());
    return 1;
  };
}

}  // namespace octavo::tools
