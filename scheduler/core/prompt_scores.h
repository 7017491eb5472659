// Log-probabilities of prompt tokens: what a result must bring of them, and what the client gets.
#ifndef OCTAVO_SCHEDULER_CORE_PROMPT_SCORES_H_
#define OCTAVO_SCHEDULER_CORE_PROMPT_SCORES_H_

#include "absl/status/status.h"
#include "common/step.h"
#include "scheduler/core/core_state.h"
#include "scheduler/core/request.h"

namespace octavo {

// INVALID_ARGUMENT unless `result` brings the scores that the step asked for, of the tokens that
// the prompts have.
absl::Status CheckScores(const InFlightStep& step, const StepResult& result);

// Fills `event` with the scores of one slice. REQUIRES: CheckScores was OK; the request is alive.
void DeliverScores(const InFlightSlice& slice, const SliceScores& scores, TokenEvent* event);

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_CORE_PROMPT_SCORES_H_
