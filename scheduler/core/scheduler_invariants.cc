// Scheduler::CheckInvariants: the rules of docs/contract.md that hold between any two calls.
#include <algorithm>
#include <numeric>
#include <vector>

#include "common/check.h"
#include "common/executor.h"
#include "common/kv_groups.h"
#include "scheduler/core/admission.h"
#include "scheduler/core/beam_group.h"
#include "scheduler/core/core_state.h"
#include "scheduler/core/scheduler.h"

namespace octavo {
namespace {

// At least one token is left to compute for a request that returns with all that it had.
void CheckRetained(const CoreState& state, const RequestState& request) {
  const RetainedTable& retained = request.retained;
  if (retained.empty()) return;
  OCTAVO_CHECK(request.single(), "request=", request.rank.id, " retains several tables");
  OCTAVO_CHECK(std::ssize(retained.blocks) == state.kv.BlocksFor(retained.tokens),
               "request=", request.rank.id, " tokens=", retained.tokens);
  const SequenceState& choice = request.choices[0];
  OCTAVO_CHECK(retained.tokens < choice.num_known() + choice.uncommitted_samples,
               "request=", request.rank.id, " tokens=", retained.tokens);
  for (const RetainedBlock& block : retained.blocks) {
    OCTAVO_CHECK(block.host == kPaddingBlock || !state.kv.IsFree(block.block) ||
                     request.last_step <= state.kv.committed(),
                 "block ", block.block, " is free while it is copied out (swap.1)");
  }
}

// Running and waiting requests are exactly the ones alive, each in its own list, in order of rank.
void CheckQueues(const CoreState& state) {
  const std::vector<RequestState*>& running = state.queues.running();
  OCTAVO_CHECK(running.size() <= static_cast<size_t>(MaxRunning(state.config)),
               "running=", running.size());
  OCTAVO_CHECK(running.size() + state.queues.waiting().size() == state.requests.size(),
               "running=", running.size(), " waiting=", state.queues.waiting().size(),
               " requests=", state.requests.size());
  OCTAVO_CHECK(std::is_sorted(running.begin(), running.end(), RequestQueues::ByRank()));
  int64_t waiting_tokens = 0;
  int64_t preempted = 0;
  for (const RequestState* request : state.queues.waiting()) {
    OCTAVO_CHECK(request->phase == Phase::kWaiting && request->spare.empty(),
                 "request=", request->rank.id);
    CheckRetained(state, *request);
    for (const SequenceState& choice : request->choices) {
      OCTAVO_CHECK(
          choice.table.empty() && choice.computed == 0 && !choice.decoding && !choice.started,
          "sequence=", choice.id);
    }
    OCTAVO_CHECK(!request->single() || request->queued_tokens == request->choices[0].num_known(),
                 "request=", request->rank.id, " queued tokens=", request->queued_tokens);
    waiting_tokens += request->queued_tokens;
    preempted += request->preemptions > 0 ? 1 : 0;
  }
  OCTAVO_CHECK(preempted == state.queues.preempted(), "preempted=", preempted,
               " kept=", state.queues.preempted());
  OCTAVO_CHECK(waiting_tokens == state.queues.waiting_tokens(), "counted=", waiting_tokens,
               " kept=", state.queues.waiting_tokens());
}

// A contiguous request holds its whole run from the start to the end.
void CheckRun(const BlockTable& table, int64_t blocks) {
  OCTAVO_CHECK(table.num_blocks() == blocks, "blocks=", table.num_blocks(), " of ", blocks);
  for (int64_t i = 1; i < blocks; ++i) {
    OCTAVO_CHECK(table.blocks()[i] == table.blocks()[0] + i, "block ", table.blocks()[i],
                 " is entry ", i, " of a run from ", table.blocks()[0]);
  }
}

// A running choice holds the blocks of all it has scheduled (step.2), none it can never use, and
// nobody else's where it writes next (kv.2).
void CheckChoice(const CoreState& state, const SequenceState& choice) {
  const KvManager& kv = state.kv;
  const RequestState& request = *choice.request;
  const int64_t held = kv.NumRows(choice.table);
  OCTAVO_CHECK(held >= kv.BlocksFor(choice.computed), "sequence=", choice.id, " blocks=", held,
               " computed=", choice.computed);
  if (choice.awaits <= request.source_computed) kv.CheckWindows(choice.table, choice.computed);
  const bool paged = state.config.kv_allocation == KvAllocation::kPaged;
  const int64_t most = paged ? request.max_cached_tokens() : ReservedTokens(state.config, request);
  OCTAVO_CHECK(held <= kv.BlocksFor(most), "sequence=", choice.id, " blocks=", held,
               " most tokens=", most);
  if (!paged) CheckRun(choice.table, kv.BlocksFor(most));
  // The source computes what the other choices of a recomputed request hold already and await.
  int32_t awaited = 0;
  if (request.beams != nullptr) {
    awaited = request.beams->AwaitedFrom(choice);
  } else if (&choice == request.source && request.request.n > 1) {
    awaited = request.prompt_tokens / kv.block_size() * kv.block_size();
  }
  kv.CheckWritable(choice.table, std::max(choice.computed, awaited));
  const int32_t unscheduled = choice.num_known() + choice.uncommitted_samples - choice.computed;
  const bool answered = request.beams != nullptr && request.beams->slot(choice).answered;
  OCTAVO_CHECK(choice.decoding ? unscheduled == (answered ? 0 : 1) : unscheduled >= 1,
               "sequence=", choice.id, " unscheduled=", unscheduled);
  OCTAVO_CHECK(request.beams == nullptr || choice.uncommitted_samples <= 1, "beam=", choice.id,
               " has two samples in flight (step.6)");
  OCTAVO_CHECK(choice.num_generated() + choice.uncommitted_samples <= request.request.max_tokens,
               "sequence=", choice.id, " scheduled past max_tokens (step.6)");
}

// What windowed groups may still ask for, of `most` rows: less than a window, or what is left.
int64_t LackingInWindows(const CoreState& state, const SequenceState& choice, int64_t most) {
  const std::vector<int32_t>& windows = state.config.group_windows;
  const std::vector<BlockId>& blocks = choice.table.blocks();
  const int64_t to_come = most - state.kv.BlocksFor(choice.computed);
  int64_t lacking = 0;
  for (size_t group = 0; group < windows.size(); ++group) {
    if (windows[group] == 0) continue;
    int64_t held = 0;
    for (size_t i = group; i < blocks.size(); i += windows.size()) {
      held += blocks[i] != kPaddingBlock ? 1 : 0;
    }
    const int64_t kept = BlocksKept(most, windows[group], state.config.block_size);
    lacking += std::clamp<int64_t>(kept - held, 0, to_come);
  }
  return lacking;
}

// The live beams are different outputs of one length; as many answers are missing as is counted.
void CheckBeams(const RequestState& request) {
  const BeamGroup& beams = *request.beams;
  OCTAVO_CHECK(static_cast<int32_t>(beams.live.size()) == request.num_active,
               "request=", request.rank.id, " live=", beams.live.size());
  size_t missing = 0;
  for (auto beam = beams.live.begin(); beam != beams.live.end(); ++beam) {
    OCTAVO_CHECK((*beam)->active && (*beam)->num_generated() == beams.search.length(),
                 "beam=", (*beam)->id, " tokens=", (*beam)->num_generated());
    missing += beams.slot(**beam).answered ? 0 : 1;
    for (auto other = beams.live.begin(); other != beam; ++other) {
      OCTAVO_CHECK((*beam)->tokens != (*other)->tokens, "beam=", (*beam)->id, " lives twice");
    }
  }
  OCTAVO_CHECK(missing == beams.missing && missing > 0, "request=", request.rank.id,
               " missing=", missing, " counted=", beams.missing);
}

// No more blocks than the distinct prefixes alive need: every full block that a beam has in common
// with one before it is the same block.
void CheckBeamSharing(const CoreState& state, const RequestState& request) {
  for (const SequenceState& beam : request.choices) {
    if (!beam.active) continue;
    int64_t held = 0;    // entries that are shared
    int64_t common = 0;  // that should be
    for (const SequenceState& before : request.choices) {
      if (&before == &beam) break;
      if (!before.active) continue;
      const auto same = [](const auto& a, const auto& b) {
        return std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
      };
      held = std::max<int64_t>(held, same(beam.table.blocks(), before.table.blocks()));
      common = std::max<int64_t>(common, same(beam.tokens, before.tokens) / state.kv.block_size());
    }
    OCTAVO_CHECK(held >= std::min(common, beam.table.num_blocks()), "beam=", beam.id, " shares ",
                 held, " of ", common, " blocks");
  }
  const int64_t blocks = request.beams->DistinctBlocks();
  const int64_t most =
      MostBlocks(state.config, request.prompt_tokens, request.request.max_tokens, request.width());
  OCTAVO_CHECK(blocks <= most, "request=", request.rank.id, " blocks=", blocks, " most=", most);
  OCTAVO_CHECK(!Immune(state.config, request) || blocks + request.spare.num_blocks() >= most,
               "immune request=", request.rank.id, " holds ", blocks, " blocks and ",
               request.spare.num_blocks(), " spare ones of ", most);
}

void CheckRunning(const CoreState& state, const RequestState& request) {
  OCTAVO_CHECK(request.phase == Phase::kRunning, "request=", request.rank.id);
  OCTAVO_CHECK(request.pool_preemptions <= state.config.max_preemptions,
               "request=", request.rank.id, " preempted ", request.pool_preemptions, " times");
  const int64_t most = state.kv.BlocksFor(request.max_cached_tokens());
  int64_t lacking = 0;  // blocks that its choices may still ask for
  int64_t active = 0;
  for (const SequenceState& choice : request.choices) {
    OCTAVO_CHECK(choice.active || choice.table.empty(), "sequence=", choice.id);
    if (!choice.active) continue;
    ++active;
    CheckChoice(state, choice);
    lacking += (most - state.kv.NumRows(choice.table)) * state.kv.num_keeping();
    lacking += LackingInWindows(state, choice, most);
  }
  OCTAVO_CHECK(active == request.num_active && active >= 1, "request=", request.rank.id,
               " active=", active);
  OCTAVO_CHECK(request.forked || active == 1, "request=", request.rank.id);
  if (request.beams != nullptr) return CheckBeamSharing(state, request);
  // Steps in flight are about to give back what they hold beyond that.
  const bool settled = !Windowed(state.config) || request.uncommitted_slices == 0;
  OCTAVO_CHECK(!Immune(state.config, request) || !settled || lacking <= request.spare.num_blocks(),
               "immune request=", request.rank.id, " lacks ", lacking, " blocks");
}

// What stats say of waste, counted from the tables: a slot has a token when some table's holder has
// computed or scheduled it. Choices that wait for their source have computed nothing themselves.
void CheckFilledSlots(const CoreState& state) {
  const int64_t block_size = state.config.block_size;
  std::vector<int64_t> filled(static_cast<size_t>(state.config.num_blocks) + 1, 0);
  for (const RequestState* request : state.queues.running()) {
    for (const SequenceState& choice : request->choices) {
      const bool computes = request->beams == nullptr ? choice.awaits <= request->source_computed
                                                      : request->beams->Ready(choice);
      if (!choice.active || !computes) continue;
      const std::vector<BlockId>& blocks = choice.table.blocks();
      for (size_t i = 0; i < blocks.size(); ++i) {
        const int64_t left =
            choice.computed - static_cast<int64_t>(i) / state.kv.num_groups() * block_size;
        if (left <= 0) break;
        if (blocks[i] == kPaddingBlock) continue;
        filled[blocks[i]] = std::max(filled[blocks[i]], std::min(left, block_size));
      }
    }
  }
  const int64_t counted = std::accumulate(filled.begin(), filled.end(), int64_t{0});
  OCTAVO_CHECK(counted == state.kv.filled_slots(), "counted=", counted,
               " filled=", state.kv.filled_slots());
}

void CheckSlotUse(const SlotUse& use, const KvManager& kv) {
  OCTAVO_CHECK(use.reserved >= 0 && use.internal >= 0, "reserved=", use.reserved,
               " internal=", use.internal);
  const int64_t all = use.used + use.reserved + use.internal + use.free;
  OCTAVO_CHECK(all + kv.num_deferred() * kv.block_size() == kv.num_blocks() * kv.block_size(),
               "slots=", all, " deferred blocks=", kv.num_deferred());
}

// Scores of a prompt come in order and once, and none is owed for what was computed.
void CheckScored(const CoreState& state, const RequestState& request) {
  if (request.phase == Phase::kEnded) return;
  int32_t scored = request.scored;
  OCTAVO_CHECK(scored >= std::min(1, request.prompt_tokens) && scored <= request.prompt_tokens,
               "request=", request.rank.id, " scored=", scored);
  for (const InFlightStep& record : state.in_flight) {
    for (const InFlightSlice& slice : record.slices) {
      if (slice.num_scored == 0 || slice.sequence->request != &request) continue;
      OCTAVO_CHECK(slice.first_scored == scored, "request=", request.rank.id, " scores from ",
                   slice.first_scored, " after ", scored);
      scored += slice.num_scored;
    }
  }
  if (request.phase != Phase::kRunning) return;
  OCTAVO_CHECK(scored >= std::min(request.source->computed + 1, request.prompt_tokens),
               "request=", request.rank.id, " computed=", request.source->computed,
               " scored=", scored);
}

// Counts per request equal what the steps in flight say; ids are consecutive; budgets are kept.
void CheckSteps(const CoreState& state) {
  OCTAVO_CHECK(state.in_flight.size() <= kMaxStepsInFlight, "steps=", state.in_flight.size());
  std::vector<const SequenceState*> named;
  StepId expected = state.next_step - state.in_flight.size();
  for (const InFlightStep& record : state.in_flight) {
    OCTAVO_CHECK(record.step == expected, "step=", record.step, " expected=", expected);
    ++expected;
    OCTAVO_CHECK(record.tokens <= state.config.max_num_batched_tokens, "tokens=", record.tokens);
    OCTAVO_CHECK(record.slices.size() <= static_cast<size_t>(state.config.max_num_seqs),
                 "slices=", record.slices.size());
    for (const InFlightSlice& slice : record.slices) named.push_back(slice.sequence);
  }
  const auto check = [&](const RequestState& request) {
    int32_t slices = 0;
    for (const SequenceState& choice : request.choices) {
      const auto count = std::count(named.begin(), named.end(), &choice);
      OCTAVO_CHECK(choice.uncommitted_samples <= count, "sequence=", choice.id);
      slices += static_cast<int32_t>(count);
    }
    OCTAVO_CHECK(slices == request.uncommitted_slices, "request=", request.rank.id,
                 " slices=", request.uncommitted_slices);
    CheckScored(state, request);
  };
  for (const auto& [id, request] : state.requests) {
    check(*request);
    if (request->beams != nullptr) CheckBeams(*request);
  }
  for (const auto& request : state.ended) {
    OCTAVO_CHECK(request->phase == Phase::kEnded && request->spare.empty(),
                 "request=", request->rank.id);
    check(*request);
  }
}

}  // namespace

void Scheduler::CheckInvariants() const {
  const CoreState& state = *state_;
  std::vector<const BlockTable*> tables;
  int64_t width = 0;
  for (const RequestState* request : state.queues.running()) {
    CheckRunning(state, *request);
    width += request->width();
    for (const SequenceState& choice : request->choices) tables.push_back(&choice.table);
    tables.push_back(&request->spare);
  }
  OCTAVO_CHECK(width <= MaxRunning(state.config), "sequences=", width);
  CheckQueues(state);
  CheckSteps(state);
  CheckFilledSlots(state);
  CheckSlotUse(slot_use(), state.kv);
  state.producers.CheckInvariants();
  state.kv.CheckInvariants(tables);
  std::vector<BlockId> hosts;
  for (const auto& [id, request] : state.requests) {
    OCTAVO_CHECK(request->phase == Phase::kWaiting || request->retained.empty(),
                 "request=", request->rank.id);
    for (const RetainedBlock& block : request->retained.blocks) {
      if (block.host != kPaddingBlock) hosts.push_back(block.host);
    }
  }
  state.swap.CheckInvariants(hosts);
}

}  // namespace octavo
