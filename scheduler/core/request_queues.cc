#include "scheduler/core/request_queues.h"

#include <algorithm>

#include "common/check.h"

namespace octavo {

void RequestQueues::Wait(RequestState* request) {
  if (request->phase == Phase::kRunning) Leave(request);
  request->phase = Phase::kWaiting;
  OCTAVO_CHECK(waiting_.insert(request).second, "request=", request->rank.id, " waits twice");
  request->queued_tokens = 0;
  RecountWaiting(request);
  preempted_ += request->preemptions > 0 ? 1 : 0;
}

void RequestQueues::RecountWaiting(RequestState* request) {
  waiting_tokens_ -= request->queued_tokens;
  // Of a request with several choices, what it has to compute again: the prompt counts once.
  request->queued_tokens = request->prompt_tokens;
  for (const SequenceState& choice : request->choices) {
    if (choice.active) request->queued_tokens += choice.num_generated();
  }
  waiting_tokens_ += request->queued_tokens;
}

void RequestQueues::Run(RequestState* request) {
  OCTAVO_CHECK(request->phase == Phase::kWaiting, "request=", request->rank.id);
  Leave(request);
  request->phase = Phase::kRunning;
  running_.insert(std::upper_bound(running_.begin(), running_.end(), request, ByRank()), request);
}

void RequestQueues::End(RequestState* request) {
  Leave(request);
  request->phase = Phase::kEnded;
}

void RequestQueues::Leave(RequestState* request) {
  if (request->phase == Phase::kWaiting) {
    OCTAVO_CHECK(waiting_.erase(request) == 1, "request=", request->rank.id, " does not wait");
    waiting_tokens_ -= request->queued_tokens;
    preempted_ -= request->preemptions > 0 ? 1 : 0;
    return;
  }
  const auto at = std::lower_bound(running_.begin(), running_.end(), request, ByRank());
  OCTAVO_CHECK(at != running_.end() && *at == request, "request=", request->rank.id,
               " does not run");
  running_.erase(at);
}

}  // namespace octavo
