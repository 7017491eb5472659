// Who goes first: the one order that admission, the running list and preemption share.
#ifndef OCTAVO_SCHEDULER_CORE_RANK_H_
#define OCTAVO_SCHEDULER_CORE_RANK_H_

#include <cstdint>

#include "absl/time/time.h"
#include "common/ids.h"

namespace octavo {

// Smaller is senior. Total, since ids are unique. A preempted request keeps its rank, so it is
// admitted again before everything that arrived after it.
struct Rank {
  int32_t priority = 0;
  absl::Time arrival = absl::UnixEpoch();
  RequestId id = 0;

  friend bool operator<(const Rank& a, const Rank& b) {
    if (a.priority != b.priority) return a.priority < b.priority;
    if (a.arrival != b.arrival) return a.arrival < b.arrival;
    return a.id < b.id;
  }
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_CORE_RANK_H_
