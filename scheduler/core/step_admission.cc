// StepBuilder: which waiting requests start, and with whose blocks.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "common/check.h"
#include "scheduler/core/admission.h"
#include "scheduler/core/beam_group.h"
#include "scheduler/core/step_builder.h"

namespace octavo {
namespace {

// What the table of a choice can begin with.
std::span<const PrefixRef> Found(const SequenceState& choice) {
  return std::span(choice.chain.found).first(static_cast<size_t>(choice.chain.hit));
}

}  // namespace

void StepBuilder::Admit() {
  const auto& waiting = state_.queues.waiting();
  if (waiting.empty()) return;
  const int64_t max_running = MaxRunning(state_.config);
  int64_t width = RunningWidth();
  int64_t next_step_blocks = NextStepBlocks();
  int64_t passed_over = 0;
  for (auto next = waiting.begin(); next != waiting.end() && budget_ > 0;) {
    RequestState* request = *next++;
    if (width + request->width() > max_running) return;
    // Its last token may still be in flight, and with it the end of the request; or its blocks are
    // on their way to the host.
    if (request->uncommitted_slices > 0 || request->last_step > state_.kv.committed()) return;
    const int64_t reserve =
        state_.queues.running().empty() ? 0 : AdmissionReserve(state_.config, next_step_blocks);
    if (state_.kv.num_free() - reserve < 1) {
      state_.head_wait = HeadWait::kForBlocks;
      return;
    }
    if (WaitsForProducer(request)) {
      // It gives way to its juniors for now, but not to look at all of them in every step.
      if (++passed_over >= max_running) return;
      continue;
    }
    if (!Start(request, reserve)) return;
    width += request->width();
    next_step_blocks += NextStepBlocks(*request);
  }
}

int64_t StepBuilder::MostFound(const SequenceState& choice) const {
  const RequestState& request = *choice.request;
  // At least one token is computed: it is what the next one is sampled from. So is every one that
  // gives a score which is still owed.
  const int32_t last = request.OwesScores() ? request.scored - 1 : choice.num_known() - 1;
  const int64_t most =
      std::min(last, FindableTokens(state_.config, request)) / state_.config.block_size;
  if (!Windowed(state_.config)) return most;
  // What is set aside is enough without found blocks, and not beside them.
  if (SetsAside(state_.config, request) && state_.queues.running().empty()) return 0;
  // Choices must find the windows at the end of the prompt that they share.
  if (request.request.n == 1) return most;
  return std::min<int64_t>(most, request.prompt_tokens / state_.config.block_size);
}

int64_t StepBuilder::MatchPrefix(SequenceState* choice) const {
  return state_.kv.Match(&choice->chain, choice->tokens, MostFound(*choice));
}

bool StepBuilder::WaitsForProducer(RequestState* request) {
  int32_t block = -1;
  if (FindProducer(request, &block) == nullptr) block = -1;
  if (block >= 0 && block != request->waits_for_block) ++state_.counters.prefix_waits;
  request->waits_for_block = block;
  return block >= 0;
}

const SequenceState* StepBuilder::FindProducer(RequestState* request, int32_t* block) const {
  SequenceState* leader = request->leader();
  const std::vector<BlockDigest>& digests = leader->chain.digests;
  if (!leader->chain.enabled || request->OwesScores()) return nullptr;
  if (request->waits_for_block >= 0) {
    const size_t awaited = static_cast<size_t>(request->waits_for_block);
    if (const SequenceState* producer = state_.producers.Find(digests[awaited])) {
      *block = request->waits_for_block;
      return producer;
    }
  }
  const int64_t found = FindRetained(*request, MatchPrefix(leader)).end;
  const int64_t most = MostFound(*leader);
  if (found >= most) return nullptr;
  const SequenceState* producer = state_.producers.Find(digests[static_cast<size_t>(found)]);
  if (producer == nullptr) return nullptr;
  // The tokens that it would compute a second time, against those until it gets the first of them.
  int64_t shared = 0;
  const std::vector<BlockDigest>& theirs = producer->chain.digests;
  for (int64_t i = found; i < most && i < static_cast<int64_t>(theirs.size()); ++i, ++shared) {
    if (digests[static_cast<size_t>(i)] != theirs[static_cast<size_t>(i)]) break;
  }
  const int64_t block_size = state_.config.block_size;
  if ((found + 1) * block_size - producer->computed > shared * block_size) return nullptr;
  *block = static_cast<int32_t>(found);
  return producer;
}

int64_t StepBuilder::BlocksToStart(RequestState* request) const {
  if (state_.config.kv_allocation != KvAllocation::kPaged) {
    return state_.kv.BlocksFor(ReservedTokens(state_.config, *request));
  }
  const KvManager& kv = state_.kv;
  if (request->beams != nullptr) request->beams->FindSharing(kv.block_size());
  // What it takes from the free list: new blocks, and found ones that nobody holds. Choices share
  // the full blocks of the prompt. At most MostBlocks, so it fits when nothing runs (life.2).
  int64_t needed = 0;
  const bool sets_aside = SetsAside(state_.config, *request);
  for (SequenceState& choice : request->choices) {
    if (!choice.active) continue;
    const int64_t shared = SharedBlocks(state_.config, choice);
    const int64_t found = std::max(MatchPrefix(&choice), shared);
    needed += (kv.BlocksFor(NeededTokens(state_.config, choice)) - found) * kv.num_keeping();
    needed += kv.NumFree(Found(choice), shared);
    if (kv.num_windowed() > 0 && !sets_aside) needed += WindowsNeeded(choice, shared);
    if (kv.num_windowed() > 0 && !state_.queues.running().empty()) {
      needed += kv.NumFreeInWindows(Found(choice));
    }
  }
  const Return retained = FindRetained(*request, request->leader()->chain.hit);
  needed -= retained.intact - retained.free;
  if (!state_.queues.running().empty()) needed += ResumeMargin(*request);
  return needed + (sets_aside ? SpareBlocks(state_.config, *request) : 0);
}

bool StepBuilder::Fits(RequestState* request, int64_t reserve) {
  if (state_.config.kv_allocation != KvAllocation::kPaged) return FitsInARow(*request);
  if (BlocksToStart(request) <= state_.kv.num_free() - reserve) return true;
  state_.head_wait = HeadWait::kForBlocks;
  return false;
}

bool StepBuilder::FitsInARow(const RequestState& request) {
  const int64_t tokens = ReservedTokens(state_.config, request);
  if (state_.kv.CanReserveRun(tokens)) return true;
  const bool enough = state_.kv.BlocksFor(tokens) <= state_.kv.num_free();
  state_.head_wait = enough ? HeadWait::kForAdjacency : HeadWait::kForBlocks;
  state_.counters.adjacency_waits += enough ? 1 : 0;
  return false;
}

bool StepBuilder::Start(RequestState* request, int64_t reserve) {
  KvManager& kv = state_.kv;
  if (!Fits(request, reserve)) return false;
  const int64_t spare =
      SetsAside(state_.config, *request) ? SpareBlocks(state_.config, *request) : 0;
  const Return retained = FindRetained(*request, request->leader()->chain.hit);
  BeginTables(request, retained);
  OCTAVO_CHECK(kv.ReserveSpare(&request->spare, spare), "request=", request->rank.id);
  state_.queues.Run(request);
  CountHit(request, request->source->computed - retained.copied);
  PrefillChoices(request, /*may_preempt=*/false);
  return true;
}

void StepBuilder::BeginTables(RequestState* request, const Return& retained) {
  KvManager& kv = state_.kv;
  SequenceState* source = request->source = request->leader();
  if (request->beams != nullptr) request->beams->ForgetAnswers();
  const auto own_way = [&](const SequenceState& choice) {
    return choice.chain.hit >= SharedBlocks(state_.config, choice);
  };
  // What it has put aside comes back when its windows have left it, so nobody else may hold it.
  const bool publishes = !(Windowed(state_.config) && SetsAside(state_.config, *request));
  request->source_computed = 0;
  // Found blocks first, all of them, before new ones are lent: those may be cached ones.
  for (SequenceState& choice : request->choices) {
    if (!choice.active) continue;
    kv.Prepare(&choice.table, request->max_cached_tokens());
    choice.tokens.reserve(static_cast<size_t>(request->max_cached_tokens()) + 1);
    if (choice.chain.enabled) {
      choice.chain.digests.reserve(static_cast<size_t>(kv.BlocksFor(request->max_cached_tokens())));
    }
    if (own_way(choice)) kv.Adopt(&choice.table, Found(choice));
  }
  if (!request->retained.empty()) Resume(request, retained);
  for (SequenceState& choice : request->choices) {
    if (!choice.active) continue;
    int64_t begun = kv.NumRows(choice.table);
    int64_t found = choice.chain.hit;
    if (!own_way(choice)) {
      begun = SharedBlocks(state_.config, choice);
      found = 0;
      const SequenceState* from =
          request->beams == nullptr ? source : request->beams->slot(choice).source;
      kv.ForkAhead(from->table, begun, &choice.table);
      choice.awaits = static_cast<int32_t>(begun * kv.block_size());
    }
    ReserveTable(&choice);
    choice.computed =
        &choice == source ? retained.computed : static_cast<int32_t>(begun * kv.block_size());
    kv.BeginChain(&choice.chain, found);
    choice.publish_at = choice.chain.enabled && publishes
                            ? static_cast<int32_t>((found + 1) * kv.block_size())
                            : std::numeric_limits<int32_t>::max();
  }
  ComputeSource(request);
  kv.Hash(&source->chain, source->tokens);
  if (publishes) state_.producers.Add(source, source->computed / kv.block_size());
}

bool StepBuilder::LendsByChunk(const SequenceState& choice) const {
  const RequestState& request = *choice.request;
  // Further choices begin with blocks of the first before it has computed them, and who is immune
  // has all that it will need.
  return request.beams == nullptr && (request.single() || !request.forked) &&
         !Windowed(state_.config) && !Immune(state_.config, request);
}

void StepBuilder::ReserveTable(SequenceState* choice) {
  KvManager& kv = state_.kv;
  if (state_.config.kv_allocation != KvAllocation::kPaged) {
    const int64_t tokens = ReservedTokens(state_.config, *choice->request);
    OCTAVO_CHECK(kv.ReserveRun(&choice->table, tokens), "sequence=", choice->id);
    return;
  }
  if (LendsByChunk(*choice)) {
    OCTAVO_CHECK(kv.Promise(&choice->table, choice->num_known()), "sequence=", choice->id);
    return;
  }
  std::vector<BlockId> added;
  OCTAVO_CHECK(kv.Reserve(&choice->table, NeededTokens(state_.config, *choice), &added),
               "sequence=", choice->id);
}

StepBuilder::Return StepBuilder::FindRetained(const RequestState& request, int64_t found) const {
  const KvManager& kv = state_.kv;
  const RetainedTable& before = request.retained;
  const int32_t block_size = kv.block_size();
  Return result{.found = found, .end = found, .computed = static_cast<int32_t>(found) * block_size};
  for (; result.end < std::ssize(before.blocks); ++result.end) {
    const RetainedBlock& block = before.blocks[static_cast<size_t>(result.end)];
    const int32_t tokens = std::min(block_size, before.tokens - result.computed);
    if (ReusesBlocks() && kv.Intact(block)) {
      ++result.intact;
      result.free += kv.IsFree(block.block) ? 1 : 0;
    } else if (block.host != kPaddingBlock) {
      result.copied += tokens;
    } else {
      break;
    }
    result.computed += tokens;
  }
  return result;
}

bool StepBuilder::ReusesBlocks() const {
  return state_.config.preemption_granularity == PreemptionGranularity::kBlock;
}

int64_t StepBuilder::ResumeMargin(const RequestState& request) const {
  if (request.pool_preemptions == 0 || Immune(state_.config, request)) return 0;
  int64_t more = 0;
  for (const SequenceState& choice : request.choices) {
    if (!choice.active) continue;
    more +=
        state_.kv.BlocksFor(request.max_cached_tokens()) - state_.kv.BlocksFor(choice.num_known());
  }
  more *= state_.kv.num_keeping();
  return static_cast<int64_t>(
      std::ceil(static_cast<double>(more) * state_.config.preemption_resume_share));
}

void StepBuilder::Resume(RequestState* request, const Return& retained) {
  const RetainedTable& before = request->retained;
  const auto end = before.blocks.begin() + std::min(retained.end, std::ssize(before.blocks));
  if (retained.end > retained.found) {
    const auto begin = before.blocks.begin() + retained.found;
    state_.kv.Resume(&request->leader()->table, {begin, end}, retained.computed, ReusesBlocks(),
                     &plan_->swap_ins);
  }
  if (std::any_of(end, before.blocks.end(),
                  [](const RetainedBlock& block) { return block.host != kPaddingBlock; })) {
    ++state_.counters.swap_drops;
  }
  state_.costs.ObserveReturn(before.tokens - before.shared_tokens,
                             retained.computed - retained.copied - before.shared_tokens);
  state_.ForgetRetained(request, record_->step);
}

void StepBuilder::CountHit(RequestState* request, int32_t found_tokens) {
  SchedulerStats& counters = state_.counters;
  if (request->first_scheduled == absl::InfiniteFuture()) {
    request->first_scheduled = now_;
    request->cached_tokens = found_tokens;
    counters.started_prompt_tokens += static_cast<uint64_t>(request->prompt_tokens);
    if (!request->leader()->chain.enabled || request->OwesScores()) return;
    counters.prefix_query_tokens += static_cast<uint64_t>(request->prompt_tokens);
    counters.prefix_hit_tokens += static_cast<uint64_t>(found_tokens);
    return;
  }
  counters.recovered_tokens += static_cast<uint64_t>(found_tokens);
}

int64_t StepBuilder::WindowsNeeded(const SequenceState& choice, int64_t shared) const {
  const KvManager& kv = state_.kv;
  const int64_t rows = kv.BlocksFor(choice.num_known()) - shared;
  // Two chunks, one in flight, make it as fast as it gets. It can do with less.
  const int64_t chunks = state_.queues.running().empty() ? 0 : 2 * kv.BlocksFor(LongestChunk());
  int64_t blocks = 0;
  for (const int32_t window : state_.config.group_windows) {
    if (window == 0) continue;
    blocks += std::min(rows, WindowBlocks(window, kv.block_size()) + chunks);
  }
  return blocks;
}

int64_t StepBuilder::RunningWidth() const {
  int64_t width = 0;
  for (const RequestState* request : state_.queues.running()) width += request->width();
  return width;
}

int64_t StepBuilder::NextStepBlocks() const {
  int64_t blocks = 0;
  for (const RequestState* request : state_.queues.running()) blocks += NextStepBlocks(*request);
  return blocks;
}

int64_t StepBuilder::NextStepBlocks(const RequestState& request) const {
  if (SetsAside(state_.config, request)) return 0;
  // Every beam may need a block of its own, be it a new one or a copy.
  if (request.beams != nullptr) return request.width();
  int64_t blocks = 0;
  for (const SequenceState& choice : request.choices) {
    if (!choice.active || choice.ending()) continue;
    const int32_t known = choice.num_known();
    if (!choice.decoding) {
      blocks += state_.kv.WindowsMissing(choice.table, choice.computed,
                                         std::min(known, choice.computed + LongestChunk()));
    }
    blocks += state_.kv.BlocksToWrite(choice.table, std::max(choice.computed, known));
  }
  // Once forked, each further choice needs a block of its own to go on, in each group.
  return request.forked ? blocks : blocks + (request.request.n - 1) * state_.kv.num_groups();
}

}  // namespace octavo
