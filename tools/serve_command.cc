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
#include "worker/transport/flags.h"

namespace octavo::tools {
namespace {

struct ServeOptions {
  SchedulerFlags scheduler;
  WorkerFlags worker;
};

absl::Status Serve(const ServeOptions& options, Signals& signals) {
  OCTAVO_ASSIGN_OR_RETURN(const std::unique_ptr<SchedulerServer> server,
                          StartLocalServer(options.scheduler, options.worker));
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
    InstallLogSink(options->scheduler.log);
    const absl::Status status = Serve(*options, signals);
    if (status.ok()) return 0;
    absl::FPrintF(stderr, "octavo serve: %s\n", status.message());
    return 1;
  };
}

}  // namespace octavo::tools
