// What the scheduler knows about one request, from Add until no step in flight names it.
#ifndef OCTAVO_SCHEDULER_CORE_REQUEST_STATE_H_
#define OCTAVO_SCHEDULER_CORE_REQUEST_STATE_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "common/ids.h"
#include "scheduler/core/rank.h"
#include "scheduler/core/request.h"
#include "scheduler/kv/block_table.h"

namespace octavo {

enum class Phase {
  kWaiting,  // holds no blocks; in the waiting queue
  kRunning,  // holds blocks; in the running list
  kEnded,    // reported; kept only while a step in flight names it
};

// Positions of a sequence, left to right:
//   [0, computed)            scheduled in this incarnation of the table, committed or not
//   [computed, num_known)    tokens known, not scheduled (prompt, or lost by a preemption)
//   [num_known, + samples)   sampled by steps in flight; the scheduler does not know them yet
// An incarnation begins at admission and ends with a preemption or a reset.
struct RequestState {
  RequestState(Request request, SequenceId sequence);

  int32_t num_known() const { return static_cast<int32_t>(tokens.size()); }
  int32_t num_generated() const { return num_known() - prompt_tokens; }
  // The steps in flight certainly sample its last token (step.6): nothing more to schedule.
  bool ending() const { return num_generated() + uncommitted_samples >= request.max_tokens; }
  // Tokens whose keys and values it can ever need at once; the last token's are never needed.
  int64_t max_cached_tokens() const { return int64_t{prompt_tokens} + request.max_tokens - 1; }
  bool IsEos(TokenId token) const;
  // The last event of the request, with its usage numbers.
  void FillUsage(FinishReason reason, TokenEvent* event) const;

  Request request;  // `prompt` has moved into `tokens`
  Rank rank;
  SequenceId sequence;
  Phase phase = Phase::kWaiting;
  std::vector<TokenId> tokens;  // prompt, then the committed part of the output
  int32_t prompt_tokens;
  int32_t preemptions = 0;       // all, as reported
  int32_t pool_preemptions = 0;  // those that count towards immunity (life.3)
  absl::Time first_scheduled = absl::InfiniteFuture();

  BlockTable table;
  int32_t computed = 0;
  bool decoding = false;  // a slice of this incarnation sampled: the rest is one fed token per step

  int32_t uncommitted_slices = 0;   // over all incarnations
  int32_t uncommitted_samples = 0;  // of those slices
  StepId last_step = 0;             // the last one that names the table; 0: none in this epoch
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_CORE_REQUEST_STATE_H_
