#include "scheduler/core/prompt_scores.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status_macros.h"

namespace octavo {
namespace {

absl::Status CheckSlice(const InFlightSlice& slice, const SliceScores& scores) {
  const SequenceState& sequence = *slice.sequence;
  if (scores.sequence != sequence.id) {
    return absl::InvalidArgumentError(
        absl::StrCat("scores of sequence ", scores.sequence, "; expected those of ", sequence.id));
  }
  if (static_cast<int64_t>(scores.tokens.size()) != slice.num_scored) {
    return absl::InvalidArgumentError(absl::StrCat("sequence ", sequence.id, " has ",
                                                   scores.tokens.size(), " scores; expected ",
                                                   slice.num_scored));
  }
  const auto most = static_cast<size_t>(sequence.request->request.prompt_logprobs);
  for (int32_t i = 0; i < slice.num_scored; ++i) {
    const ScoredToken& scored = scores.tokens[static_cast<size_t>(i)];
    const int32_t position = slice.first_scored + i;
    const TokenId token = sequence.tokens[static_cast<size_t>(position)];
    if (scored.token != token || scored.top.size() > most) {
      return absl::InvalidArgumentError(
          absl::StrCat("sequence ", sequence.id, " position ", position, ": the score is of token ",
                       scored.token, " with ", scored.top.size(), " others; expected token ", token,
                       " with at most ", most));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckScores(const InFlightStep& step, const StepResult& result) {
  size_t next = 0;
  for (const InFlightSlice& slice : step.slices) {
    if (slice.num_scored == 0) continue;
    if (next == result.scores.size()) {
      return absl::InvalidArgumentError(absl::StrCat("step ", result.step, " has scores of ", next,
                                                     " slices; the plan asked for more"));
    }
    OCTAVO_RETURN_IF_ERROR(CheckSlice(slice, result.scores[next++]));
  }
  if (next != result.scores.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "step ", result.step, " has scores of ", result.scores.size(), " slices; expected ", next));
  }
  return absl::OkStatus();
}

void DeliverScores(const InFlightSlice& slice, const SliceScores& scores, TokenEvent* event) {
  RequestState* request = slice.sequence->request;
  OCTAVO_CHECK(slice.first_scored == request->scored, "request=", request->rank.id, " scored from ",
               slice.first_scored, " after ", request->scored);
  request->scored += slice.num_scored;
  event->request = request->rank.id;
  event->choice_index = slice.sequence->choice_index;
  event->first_scheduled = request->first_scheduled;
  event->prompt_logprobs = scores.tokens;
}

}  // namespace octavo
