// A scheduler and a CPU worker inside this process: `octavo serve`, and what a bench measures when
// it is given a model instead of a server.
#ifndef OCTAVO_TOOLS_LOCAL_SERVER_H_
#define OCTAVO_TOOLS_LOCAL_SERVER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "scheduler/transport/flags.h"
#include "scheduler/transport/scheduler_server.h"
#include "worker/transport/flags.h"

namespace octavo::tools {

// The same with one worker process for each address, rank 0 first.
absl::StatusOr<std::unique_ptr<SchedulerServer>> StartServerOf(
    const std::vector<std::string>& workers, const SchedulerFlags& scheduler);

// The model is that of the scheduler's flags. Returns as soon as it listens; loading goes on.
absl::StatusOr<std::unique_ptr<SchedulerServer>> StartLocalServer(const SchedulerFlags& scheduler,
                                                                  WorkerFlags worker);

}  // namespace octavo::tools

#endif  // OCTAVO_TOOLS_LOCAL_SERVER_H_
