// Whether a request may enter the queue, and whether a waiting one may start.
#ifndef OCTAVO_SCHEDULER_CORE_ADMISSION_H_
#define OCTAVO_SCHEDULER_CORE_ADMISSION_H_

#include <cstdint>

#include "absl/status/status.h"
#include "scheduler/core/request.h"
#include "scheduler/core/request_state.h"
#include "scheduler/core/scheduler_config.h"

namespace octavo {

// INVALID_ARGUMENT when the request can never run: what, its value, the limit.
absl::Status CheckRequest(const SchedulerConfig& config, const Request& request);

// RESOURCE_EXHAUSTED when the waiting queue has no room for it. A prompt longer than
// max_queued_tokens still gets in when nothing waits, or it never could.
absl::Status CheckQueue(const SchedulerConfig& config, const Request& request,
                        int64_t waiting_requests, int64_t waiting_tokens);

// Most sequences that run at once. Each needs at least one token of every step's budget.
int32_t MaxRunning(const SchedulerConfig& config);

// A request that was preempted max_preemptions times is never preempted again (life.3).
bool Immune(const SchedulerConfig& config, const RequestState& request);

// Most blocks that a request can ever hold: its choices share the full blocks of the prompt, and
// windowed groups give back what their windows have left.
int64_t MostBlocks(const SchedulerConfig& config, int64_t prompt_tokens, int64_t max_tokens,
                   int64_t choices);

// Some group sees a window only.
bool Windowed(const SchedulerConfig& config);

// Tokens that a choice of a waiting request reserves blocks for when it starts: all that are known;
// for an immune request that sets nothing aside all that it can ever have, so that it needs
// nobody's blocks to end.
int64_t NeededTokens(const SchedulerConfig& config, const SequenceState& choice);

// Tokens that a contiguous request reserves when it starts. REQUIRES: kv_allocation is not kPaged.
int64_t ReservedTokens(const SchedulerConfig& config, const RequestState& request);

// How many of the choice's first blocks are those of the choices before it, when the tables of a
// waiting request begin: the full blocks of the prompt; of beams, all that their tokens have in
// common (BeamGroup::FindSharing).
int64_t SharedBlocks(const SchedulerConfig& config, const SequenceState& choice);

// Tokens whose blocks may be found in the index by the request, and by others once it has computed
// them. Beams that are immune keep what they generate to themselves: the blocks of a beam that dies
// must be there for the others.
int32_t FindableTokens(const SchedulerConfig& config, const RequestState& request);

// An immune request with several choices, or with windowed groups, puts blocks aside when it
// starts, so that it never needs another's.
bool SetsAside(const SchedulerConfig& config, const RequestState& request);
// How many, besides those that groups which see all have for the known tokens.
int64_t SpareBlocks(const SchedulerConfig& config, const RequestState& request);

// Free blocks that admission leaves alone: the watermark, and never less than what running
// sequences need for their next step. None where nothing grows.
int64_t AdmissionReserve(const SchedulerConfig& config, int64_t next_step_blocks);

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_CORE_ADMISSION_H_
