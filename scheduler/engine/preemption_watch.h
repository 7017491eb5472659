// Tells one preemption from a pool that is too small for its load.
#ifndef OCTAVO_SCHEDULER_ENGINE_PREEMPTION_WATCH_H_
#define OCTAVO_SCHEDULER_ENGINE_PREEMPTION_WATCH_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "scheduler/core/scheduler.h"
#include "scheduler/engine/capacity.h"

namespace octavo {

// "preempted request=7 mode=swap blocks=12 ...": what happened, and both costs that were weighed.
std::string PreemptionLine(const PreemptionEvent& event);

// Pure; time is an argument.
class PreemptionWatch {
 public:
  static constexpr int kManyPreemptions = 30;  // within kWindow: sustained
  static constexpr absl::Duration kWindow = absl::Seconds(60);
  static constexpr absl::Duration kQuiet = absl::Seconds(60);  // between two pieces of advice

  // Records a preemption for lack of blocks, at which `running` requests ran besides. Returns the
  // advice to log when they are sustained: what is missing for the traffic that `capacity` and the
  // recorded preemptions show.
  std::optional<std::string> Record(absl::Time now, const PreemptionEvent& event, int64_t running,
                                    const CapacityReport& capacity);

 private:
  struct Entry {
    absl::Time time;
    int64_t running = 0;
    int64_t tokens_lost = 0;
    int64_t swap_bytes = 0;
  };
  std::deque<Entry> recent_;  // at most kManyPreemptions, oldest first
  absl::Time last_advice_ = absl::InfinitePast();
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_ENGINE_PREEMPTION_WATCH_H_
