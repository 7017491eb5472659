// What the scheduler knows about one request, from Add until no step in flight names it.
#ifndef OCTAVO_SCHEDULER_CORE_REQUEST_STATE_H_
#define OCTAVO_SCHEDULER_CORE_REQUEST_STATE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "common/ids.h"
#include "scheduler/core/rank.h"
#include "scheduler/core/request.h"
#include "scheduler/kv/block_table.h"
#include "scheduler/kv/prefix_cache.h"
#include "scheduler/kv/retained_table.h"

namespace octavo {

struct BeamGroup;  // beam_group.h
struct RequestState;

enum class Phase {
  kWaiting,  // holds no blocks; in the waiting queue
  kRunning,  // holds blocks; in the running list
  kEnded,    // reported; kept only while a step in flight names it
};

// One choice of a request, or one live beam of a beam search. Positions, left to right:
//   [0, computed)            found in the index, shared, or scheduled in this incarnation of the
//                            table, committed or not
//   [computed, num_known)    tokens known, not scheduled (prompt, or lost by a preemption)
//   [num_known, + samples)   sampled by steps in flight; the scheduler does not know them yet
// An incarnation begins at admission and ends with a preemption or a reset.
struct SequenceState {
  int32_t num_known() const { return static_cast<int32_t>(tokens.size()); }
  int32_t num_generated() const;
  // The steps in flight certainly sample its last token (step.6): nothing more to schedule.
  bool ending() const { return num_known() + uncommitted_samples >= end; }

  // What every step looks at comes first.
  RequestState* request = nullptr;
  SequenceId id = 0;
  int32_t choice_index = 0;
  int32_t computed = 0;
  int32_t uncommitted_samples = 0;  // over all incarnations
  int32_t publish_at = 0;           // committed tokens at which the next block is full
  int32_t end = 0;                  // most tokens: those of the prompt and max_tokens
  // Its table begins with blocks of the request's source, which compute this many tokens: it goes
  // on once they are scheduled.
  int32_t awaits = 0;
  // The first choice is active from the start, the others from the fork, each until its end. Beams
  // are born and die at every step.
  bool active = false;
  bool started = false;   // a plan has told the workers about the table
  bool decoding = false;  // a slice of this incarnation sampled: the rest is one fed token per step
  std::vector<TokenId> tokens;  // prompt, then the committed part of the output
  BlockTable table;

  PrefixChain chain;
  int32_t producing_from = 0;  // blocks that PrefixProducers may name it for
  int32_t producing_to = 0;
};

struct RequestState {
  // The choices have the ids from `first` on.
  RequestState(Request request, SequenceId first);
  ~RequestState();
  RequestState(const RequestState&) = delete;
  RequestState& operator=(const RequestState&) = delete;

  // Tokens whose keys and values a choice can ever need at once; the last token's are never needed.
  int64_t max_cached_tokens() const { return int64_t{prompt_tokens} + request.max_tokens - 1; }
  // Sequences that it takes up in a step.
  int32_t width() const {
    return forked && beams == nullptr ? num_active : request.num_sequences();
  }
  // One sequence from beginning to end.
  bool single() const { return beams == nullptr && request.n == 1; }
  // The first active choice.
  SequenceState* leader();
  bool ending() const;  // all active choices are
  int32_t generated_tokens() const;
  // Tokens computed in this incarnation, those of shared blocks once.
  int32_t computed_tokens() const;
  bool IsEos(TokenId token) const;
  // Prompt tokens from `scored` on still lack the log-probability that was asked for.
  bool OwesScores() const { return scored < prompt_tokens; }
  // The last event of a choice, with its usage numbers.
  void FillUsage(const SequenceState& choice, FinishReason reason, TokenEvent* event) const;
  // Back to before the fork, when nothing of it was committed.
  void Unfork();

  // What every step looks at comes first, on two cache lines.
  std::vector<SequenceState> choices;  // num_sequences() of them, never moved
  std::unique_ptr<BeamGroup> beams;    // of a beam search
  Phase phase = Phase::kWaiting;
  int32_t uncommitted_slices = 0;  // over all choices and incarnations
  // The last one that names a table, or swaps its blocks; 0: none in this epoch. A waiting request
  // does not start before it is committed.
  StepId last_step = 0;
  // Of this incarnation: whose first blocks the other choices share, and how far it has come.
  SequenceState* source = nullptr;
  int32_t source_computed = 0;
  int32_t num_active = 1;
  absl::Time first_scheduled = absl::InfiniteFuture();
  int32_t scored = 0;  // prompt tokens that need no score any more; the first never does
  int32_t prompt_tokens;
  Rank rank;
  bool forked;  // n is 1, or beams, or the step that samples the first tokens was scheduled

  Request request;  // `prompt` has moved into the first choice's tokens
  int32_t cached_tokens = 0;
  int32_t preemptions = 0;       // all, as reported
  int32_t pool_preemptions = 0;  // those that count towards immunity (life.3)
  int32_t queued_tokens = 0;     // its share of the waiting tokens
  int32_t waits_for_block = -1;  // of its leader's prefix, which another request is computing
  // What an immune request with several choices has put aside for them.
  BlockTable spare;
  // While it waits: what it had before it was preempted. Only of one choice.
  RetainedTable retained;
};

inline int32_t SequenceState::num_generated() const { return num_known() - request->prompt_tokens; }

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_CORE_REQUEST_STATE_H_
