// Who runs and who waits, both in order of rank.
#ifndef OCTAVO_SCHEDULER_CORE_REQUEST_QUEUES_H_
#define OCTAVO_SCHEDULER_CORE_REQUEST_QUEUES_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "scheduler/core/request_state.h"

namespace octavo {

// Holds pointers to requests that outlive their stay. Owns their `phase`.
class RequestQueues {
 public:
  struct ByRank {
    bool operator()(const RequestState* a, const RequestState* b) const {
      return a->rank < b->rank;
    }
  };

  // `max_running` bounds the running list, which then never allocates.
  explicit RequestQueues(size_t max_running) { running_.reserve(max_running); }

  const std::vector<RequestState*>& running() const { return running_; }  // senior first
  const std::set<RequestState*, ByRank>& waiting() const { return waiting_; }
  int64_t waiting_tokens() const { return waiting_tokens_; }
  // Of those waiting, requests that lost their blocks.
  int64_t preempted() const { return preempted_; }
  // The waiting request to admit next; nullptr when none waits.
  RequestState* head() const { return waiting_.empty() ? nullptr : *waiting_.begin(); }

  // To the waiting queue, from the running list when it is there: then it was preempted, which
  // request->preemptions counts already.
  void Wait(RequestState* request);
  // REQUIRES: it waits.
  void Run(RequestState* request);
  // Out of both, for good.
  void End(RequestState* request);
  // A step that was in flight at its preemption brought one more token of a waiting request.
  void CountWaitingToken(RequestState* request) {
    ++request->queued_tokens;
    ++waiting_tokens_;
  }
  // The same of a beam search, whose beams all change.
  void RecountWaiting(RequestState* request);

 private:
  void Leave(RequestState* request);

  std::vector<RequestState*> running_;
  std::set<RequestState*, ByRank> waiting_;
  int64_t waiting_tokens_ = 0;
  int64_t preempted_ = 0;
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_CORE_REQUEST_QUEUES_H_
