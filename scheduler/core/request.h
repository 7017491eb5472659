// A request as the core sees it, and the facts it reports about one.
#ifndef OCTAVO_SCHEDULER_CORE_REQUEST_H_
#define OCTAVO_SCHEDULER_CORE_REQUEST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/ids.h"
#include "common/sampling_params.h"
#include "common/step.h"
#include "scheduler/core/beam.h"

namespace octavo {

struct Request {
  RequestId id = 0;
  std::vector<TokenId> prompt;  // >= 1 token
  SamplingParams sampling;      // seed resolved (det.2)
  int32_t max_tokens = 16;      // >= 1, of each choice
  int32_t n = 1;                // choices; each has its own random stream, 0 that of an n = 1 run
  // Beam search instead of sampling; `n` are then the hypotheses to report, at most its width.
  std::optional<BeamParams> beam;
  // Log-probability of each prompt token but the first: -1: none; k: and of the k most likely
  // there, at most kMaxTopLogprobs. Such a prompt is computed, not found.
  int32_t prompt_logprobs = -1;
  bool ignore_eos = false;
  std::vector<TokenId> eos_ids;  // end of generation; the token is reported, never shown as text
  int32_t priority = 0;          // smaller runs first
  absl::Time arrival = absl::UnixEpoch();
  bool prefix_cache = true;    // may find blocks of others, and be found by them
  std::string cache_salt;      // of the tenant: different salts never share (kv.6)
  std::string adapter_digest;  // identifies the adapter's weights; empty: none

  // Sequences that it takes up in a step, once its prompt is computed.
  int32_t num_sequences() const { return beam.has_value() ? beam->width : n; }
};

enum class FinishReason { kStop, kLength, kAbort };

// One sampled token, the scores of a piece of the prompt, or the end of a choice. In order per
// choice; the choices of one request end each by itself, and the event of the last end says so.
// Those of a beam search come all at once, when the search has ended: its hypotheses, best first.
struct TokenEvent {
  RequestId request = 0;
  int32_t choice_index = 0;
  // Absent with scores alone, when an abort ended the request, or when a beam search finished fewer
  // hypotheses than asked.
  std::optional<TokenId> token;
  float logprob = 0;
  std::vector<TokenLogprob> top_logprobs;
  // Each prompt token from the second on, once, whatever was computed twice; before the first
  // sampled token, in events of their own.
  std::vector<ScoredToken> prompt_logprobs;
  std::optional<FinishReason> finish;  // of this choice
  bool request_ended = false;          // with this event: no choice is left
  // Filled when `finish` is set. All but generated_tokens are facts of the request, the same for
  // every choice: usage counts them once.
  int32_t prompt_tokens = 0;
  int32_t cached_tokens = 0;     // prompt tokens that were found, not computed
  int32_t generated_tokens = 0;  // of this choice
  int32_t preemptions = 0;
  double score = 0;  // of a hypothesis of a beam search
  // When its first slice was scheduled, by the clock given to Schedule; InfiniteFuture when an
  // abort came first. Filled in every event: minus the arrival it is the time in the queue.
  absl::Time first_scheduled = absl::InfiniteFuture();
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_CORE_REQUEST_H_
