// One call of a simulated life, so that a failing life can be written down, shortened and replayed.
#ifndef OCTAVO_TESTS_SIM_SIM_COMMAND_H_
#define OCTAVO_TESTS_SIM_SIM_COMMAND_H_

#include <span>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/ids.h"
#include "scheduler/core/request.h"

namespace octavo {

struct SimCommand {
  enum class Kind {
    kAdd,
    kAbort,
    kFlush,
    kReset,     // the workers are lost; what they would have answered comes late
    kSchedule,  // nothing happens when all steps in flight are taken
    kCommit,    // nothing happens when no step is in flight
    kRepeat,    // the last result comes a second time
  };

  Kind kind = Kind::kSchedule;
  absl::Time now = absl::UnixEpoch();
  Request request;   // kAdd
  RequestId id = 0;  // kAbort
  // kCommit: what the worker measured.
  double compute_seconds = 0;
  double swap_seconds = 0;  // each way

  std::string ToString() const;
};

// One line each.
std::string ToString(std::span<const SimCommand> commands);

}  // namespace octavo

#endif  // OCTAVO_TESTS_SIM_SIM_COMMAND_H_
