#include "scheduler/transport/serving.h"

#include "common/log.h"
#include "common/status_macros.h"

namespace octavo {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(50);

}  // namespace

absl::Status ServeUntilSignal(SchedulerServer& server, const SchedulerFlags& flags,
                              Signals& signals, const std::function<absl::Status()>& check) {
  while (signals.Wait(kPoll) == 0) {
    const EngineSnapshot now = server.engine().snapshot();
    if (now.state == EngineState::kFailed) return now.failure;
    if (check) OCTAVO_RETURN_IF_ERROR(check());
  }
  signals.ExitOnNext();
  OCTAVO_LOG(kInfo, "stopping when running requests have ended, at most ",
             flags.drain_timeout_seconds, " s; a second signal stops at once");
  if (!server.Drain(absl::Seconds(flags.drain_timeout_seconds)))
    OCTAVO_LOG(kWarning, "ending requests that are still running, requests=",
               server.engine().snapshot().live_streams);
  server.Stop();
  return absl::OkStatus();
}

}  // namespace octavo
