// The life of a serving process: until its workers fail for good, or an operator ends it.
#ifndef OCTAVO_SCHEDULER_TRANSPORT_SERVING_H_
#define OCTAVO_SCHEDULER_TRANSPORT_SERVING_H_

#include <functional>

#include "absl/status/status.h"
#include "common/program/program.h"
#include "scheduler/transport/flags.h"
#include "scheduler/transport/scheduler_server.h"

namespace octavo {

// Returns the reason when the workers can never serve, or an error of `check`, which is asked all
// the while. On a signal: drains for at most --drain-timeout, stops the server and returns OK; a
// second signal ends the process at once.
absl::Status ServeUntilSignal(SchedulerServer& server, const SchedulerFlags& flags,
                              Signals& signals,
                              const std::function<absl::Status()>& check = nullptr);

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_TRANSPORT_SERVING_H_
