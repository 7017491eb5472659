#include "scheduler/core/request_state.h"

#include <algorithm>
#include <utility>

namespace octavo {

RequestState::RequestState(Request r, SequenceId s)
    : request(std::move(r)),
      rank{request.priority, request.arrival, request.id},
      sequence(s),
      tokens(std::move(request.prompt)),
      prompt_tokens(static_cast<int32_t>(tokens.size())) {}

bool RequestState::IsEos(TokenId token) const {
  return !request.ignore_eos &&
         std::find(request.eos_ids.begin(), request.eos_ids.end(), token) != request.eos_ids.end();
}

void RequestState::FillUsage(FinishReason reason, TokenEvent* event) const {
  event->finish = reason;
  event->prompt_tokens = prompt_tokens;
  event->generated_tokens = num_generated();
  event->preemptions = preemptions;
}

}  // namespace octavo
