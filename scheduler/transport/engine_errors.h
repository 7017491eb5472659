// The engine's refusals as clients get them: with what to do next.
#ifndef OCTAVO_SCHEDULER_TRANSPORT_ENGINE_ERRORS_H_
#define OCTAVO_SCHEDULER_TRANSPORT_ENGINE_ERRORS_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "scheduler/engine/engine_snapshot.h"

namespace octavo {

// How long until a full queue has room, from how fast requests have ended so far.
absl::Duration RetryDelay(const EngineSnapshot& snapshot);

// Adds RetryInfo to UNAVAILABLE and RESOURCE_EXHAUSTED, to the latter QuotaFailure too; leaves
// other errors as they are.
absl::Status WithAdvice(absl::Status error, const EngineSnapshot& snapshot);

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_TRANSPORT_ENGINE_ERRORS_H_
