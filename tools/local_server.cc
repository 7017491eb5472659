#include "tools/local_server.h"

#include <utility>
#include <vector>

#include "common/status_macros.h"
#include "scheduler/transport/remote_executor.h"
#include "worker/runtime/local_executor.h"

namespace octavo::tools {

absl::StatusOr<std::unique_ptr<SchedulerServer>> StartLocalServer(const SchedulerFlags& scheduler,
                                                                  WorkerFlags worker) {
  worker.model_path = scheduler.model_path;
  worker.load_format = scheduler.load_format;
  OCTAVO_ASSIGN_OR_RETURN(ServedModel model,
                          LoadServedModel(scheduler.model_path, scheduler.load_format));
  OCTAVO_ASSIGN_OR_RETURN(std::unique_ptr<LocalExecutor> executor,
                          LocalExecutor::Create(ExecutorOptions(worker, "in-process")));
  executor->BeginLoad();
  std::vector<std::unique_ptr<Executor>> executors;
  executors.push_back(std::move(executor));
  return SchedulerServer::Start(scheduler, std::move(model), std::move(executors));
}

absl::StatusOr<std::unique_ptr<SchedulerServer>> StartServerOf(
    const std::vector<std::string>& workers, const SchedulerFlags& scheduler) {
  OCTAVO_ASSIGN_OR_RETURN(ServedModel model,
                          LoadServedModel(scheduler.model_path, scheduler.load_format));
  std::vector<std::unique_ptr<Executor>> executors;
  for (const std::string& target : workers)
    executors.push_back(std::make_unique<RemoteExecutor>(RemoteExecutorOptions{.target = target}));
  return SchedulerServer::Start(scheduler, std::move(model), std::move(executors));
}

}  // namespace octavo::tools
