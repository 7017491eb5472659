// Drives the real Scheduler through simulated time.
#ifndef OCTAVO_TOOLS_SIMULATE_SIMULATION_H_
#define OCTAVO_TOOLS_SIMULATE_SIMULATION_H_

#include <cstdint>
#include <functional>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "common/executor.h"
#include "scheduler/core/scheduler.h"
#include "tools/simulate/simulated_device.h"
#include "tools/simulate/simulation_options.h"
#include "tools/simulate/simulation_report.h"
#include "tools/simulate/workload.h"

namespace octavo::simulate {

// Told now and then how many requests have ended, of how many; false ends the run early.
using ProgressCallback = std::function<bool(int64_t ended, int64_t of)>;

// The loop of scheduler/engine without its threads: arrivals are added at step boundaries, and as
// many steps as the engine allows are in flight. Scheduling itself takes no simulated time: it
// hides behind the step in flight. The same setup and trace give the same report.
//
// Arrivals wait outside the scheduler until its own queue could be looked at to its end, so memory
// does not grow with the backlog; admission sees the same as if all of them waited inside.
class Simulation {
 public:
  // `setup` and `trace` outlive it.
  Simulation(const SimulationSetup& setup, const Trace& trace);

  SimulationReport Run(const ProgressCallback& progress);

 private:
  struct Live {
    double arrival = 0;
    int32_t prompt_tokens = 0;
    absl::InlinedVector<double, 1> last_token;  // of each choice; negative: none yet
  };

  void AddArrivals();
  void ScheduleSteps();
  void Deliver(const TokenEvent& event);
  // Lets time pass to `until` at the present levels.
  void Advance(double until);
  Levels NowLevels();

  const SimulationSetup& setup_;
  Workload workload_;
  Scheduler scheduler_;
  SimulatedDevice device_;
  const int64_t queue_limit_;
  absl::flat_hash_map<RequestId, Live> live_;  // looked up, never iterated
  double now_ = 0;
  Workload arrivals_;    // the same once more, to count those that wait outside
  int64_t arrived_ = 0;  // until now
  int64_t taken_ = 0;    // of those, added or refused
  SimulationReport report_;
};

}  // namespace octavo::simulate

#endif  // OCTAVO_TOOLS_SIMULATE_SIMULATION_H_
