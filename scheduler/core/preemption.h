// Chooses whose blocks are given up when a running sequence needs one and none is free.
#ifndef OCTAVO_SCHEDULER_CORE_PREEMPTION_H_
#define OCTAVO_SCHEDULER_CORE_PREEMPTION_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "scheduler/core/rank.h"

namespace octavo {

struct VictimCandidate {
  Rank rank;
  int64_t cost_tokens = 0;  // computed tokens that would have to be computed again
  bool immune = false;      // preempted often enough, or about to end by itself
};

// The candidate that comes first in the order: lowest priority, then least cost, then latest
// arrival, then highest id (life.3). Only candidates junior to the beneficiary count, so it is
// never its own victim and no two requests can take turns in preempting each other; immune ones
// never do.
//
// Progress (life.2): the most senior running request that is not immune can take from every other
// that is not immune, and nobody can take from it. Immune requests hold all the blocks they can
// ever need since they were admitted (NeededTokens in admission.h), so they end without taking any.
std::optional<size_t> ChooseVictim(std::span<const VictimCandidate> candidates,
                                   const Rank& beneficiary);

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_CORE_PREEMPTION_H_
