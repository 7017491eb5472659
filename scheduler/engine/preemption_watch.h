// Tells one preemption from a pool that is too small for its load.
#ifndef OCTAVO_SCHEDULER_ENGINE_PREEMPTION_WATCH_H_
#define OCTAVO_SCHEDULER_ENGINE_PREEMPTION_WATCH_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "scheduler/core/scheduler.h"

namespace octavo {

// "preempted request=7 mode=swap blocks=12 ...": what happened, and both costs that were weighed.
std::string PreemptionLine(const PreemptionEvent& event);

// Pure; time is an argument.
class PreemptionWatch {
 public:
  static constexpr int kManyPreemptions = 30;  // within kWindow: sustained
  static constexpr absl::Duration kWindow = absl::Seconds(60);
  static constexpr absl::Duration kQuiet = absl::Seconds(60);  // between two pieces of advice

  // Records a preemption for lack of blocks. Returns the advice to log when they are sustained.
  std::optional<std::string> Record(absl::Time now, int32_t tokens_lost, int64_t running);

 private:
  struct Entry {
    absl::Time time;
    int32_t tokens_lost;
  };
  std::deque<Entry> recent_;  // at most kManyPreemptions, oldest first
  absl::Time last_advice_ = absl::InfinitePast();
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_ENGINE_PREEMPTION_WATCH_H_
