// A request as the core sees it, and the facts it reports about one.
#ifndef OCTAVO_SCHEDULER_CORE_REQUEST_H_
#define OCTAVO_SCHEDULER_CORE_REQUEST_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "common/ids.h"
#include "common/sampling_params.h"
#include "common/step.h"

namespace octavo {

struct Request {
  RequestId id = 0;
  std::vector<TokenId> prompt;  // >= 1 token
  SamplingParams sampling;      // seed resolved (det.2)
  int32_t max_tokens = 16;      // >= 1
  bool ignore_eos = false;
  std::vector<TokenId> eos_ids;  // end of generation; the token is reported, never shown as text
  int32_t priority = 0;          // smaller runs first
  absl::Time arrival = absl::UnixEpoch();
};

enum class FinishReason { kStop, kLength, kAbort };

// One sampled token, or the end of a request. In order per request.
struct TokenEvent {
  RequestId request = 0;
  int32_t choice_index = 0;
  std::optional<TokenId> token;  // absent when an abort ended the request
  float logprob = 0;
  std::vector<TokenLogprob> top_logprobs;
  std::optional<FinishReason> finish;
  // Filled when `finish` is set.
  int32_t prompt_tokens = 0;
  int32_t cached_tokens = 0;  // prompt tokens that were found, not computed
  int32_t generated_tokens = 0;
  int32_t preemptions = 0;
  // When its first slice was scheduled, by the clock given to Schedule; InfiniteFuture when an
  // abort came first. Filled in every event: minus the arrival it is the time in the queue.
  absl::Time first_scheduled = absl::InfiniteFuture();
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_CORE_REQUEST_H_
