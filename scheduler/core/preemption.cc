#include "scheduler/core/preemption.h"

namespace octavo {
namespace {

bool ComesFirst(const VictimCandidate& a, const VictimCandidate& b) {
  if (a.rank.priority != b.rank.priority) return a.rank.priority > b.rank.priority;
  if (a.cost_tokens != b.cost_tokens) return a.cost_tokens < b.cost_tokens;
  return b.rank < a.rank;
}

}  // namespace

std::optional<size_t> ChooseVictim(std::span<const VictimCandidate> candidates,
                                   const Rank& beneficiary) {
  std::optional<size_t> best;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const VictimCandidate& candidate = candidates[i];
    if (candidate.immune || !(beneficiary < candidate.rank)) continue;
    if (!best || ComesFirst(candidate, candidates[*best])) best = i;
  }
  return best;
}

}  // namespace octavo
