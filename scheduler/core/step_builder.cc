#include "scheduler/core/step_builder.h"

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "scheduler/core/admission.h"
#include "scheduler/core/beam_group.h"

namespace octavo {

StepBuilder::StepBuilder(CoreState* state, absl::Time now, std::vector<VictimCandidate>* candidates)
    : state_(*state),
      now_(now),
      candidates_(*candidates),
      budget_(state->config.max_num_batched_tokens) {}

void StepBuilder::Build(StepPlan* plan, InFlightStep* record) {
  plan_ = plan;
  record_ = record;
  state_.head_wait = HeadWait::kNotForBlocks;
  const std::vector<RequestState*>& running = state_.queues.running();
  // Room for all that could start too, so that the slices are never moved.
  plan->slices.reserve(
      std::min(static_cast<size_t>(state_.config.max_num_seqs),
               std::max(running.size(), state_.last_slices) + state_.queues.waiting().size()));
  // By index, and the size anew each time: a decode may preempt its juniors, which come later.
  for (size_t i = 0; i < running.size(); ++i) {
    const bool beams = running[i]->beams != nullptr;
    for (SequenceState& choice : running[i]->choices) {
      if (!choice.active || !choice.decoding || choice.ending()) continue;
      // A beam waits until all have sampled and the rule has given it its next token (step.6).
      if (beams && choice.computed == choice.num_known()) continue;
      Decode(&choice);
    }
  }
  for (size_t i = 0; i < running.size() && budget_ > 0; ++i) {
    PrefillChoices(running[i], /*may_preempt=*/true);
  }
  if (!short_of_blocks_) {
    Admit();
  } else if (state_.queues.head() != nullptr) {
    state_.head_wait = HeadWait::kForBlocks;
  }
}

void StepBuilder::Decode(SequenceState* choice) {
  std::vector<BlockId> new_blocks;
  copies_.clear();
  if (!ReserveForDecode(choice, &new_blocks, &copies_)) {
    short_of_blocks_ = true;
    return;
  }
  SeqSlice& slice = AddSlice(choice, 1, /*sample=*/true);
  if (choice->request->beams == nullptr) {
    slice.feed_sampled = true;
  } else {
    slice.tokens.push_back(choice->tokens.back());
  }
  for (const CopyOnWrite& copy : copies_) {
    if (copy.copy.source != kPaddingBlock) plan_->copies.push_back(copy.copy);
  }
  if (!choice->started) return Begin(choice, &slice);
  slice.new_blocks = std::move(new_blocks);
  for (const CopyOnWrite& copy : copies_) slice.replaced.push_back({copy.index, copy.copy.target});
}

void StepBuilder::Begin(SequenceState* choice, SeqSlice* slice) {
  choice->started = true;
  slice->start =
      SequenceStart{choice->request->request.sampling, static_cast<uint32_t>(choice->choice_index)};
  slice->new_blocks = choice->table.blocks();
}

bool StepBuilder::ReserveForDecode(SequenceState* choice, std::vector<BlockId>* new_blocks,
                                   std::vector<CopyOnWrite>* copies) {
  KvManager& kv = state_.kv;
  RequestState* request = choice->request;
  while (
      !kv.ReserveToWrite(&choice->table, choice->computed, &request->spare, new_blocks, copies)) {
    // What was set aside comes back as its steps in flight slide.
    if (SetsAside(state_.config, *request)) return false;
    if (WaitFor(kv.BlocksToWrite(choice->table, choice->computed))) return false;
    if (!PreemptFor(*request)) return false;
  }
  return true;
}

bool StepBuilder::WaitFor(int64_t blocks) {
  // Another request's work is not worth a step.
  if (state_.kv.num_free() + ComingBlocks() - promised_ < blocks) return false;
  promised_ += blocks;
  return true;
}

int64_t StepBuilder::ComingBlocks() {
  if (ending_blocks_ < 0) {
    ending_blocks_ = 0;
    for (const RequestState* request : state_.queues.running()) {
      if (request->last_step == record_->step) continue;
      for (const SequenceState& choice : request->choices) {
        // Beams end together.
        const bool ends = request->beams == nullptr ? choice.ending() : request->ending();
        if (choice.active && ends) {
          ending_blocks_ += state_.kv.NumExclusive(choice.table);
        }
      }
    }
  }
  return ending_blocks_ + state_.kv.num_deferred();
}

bool StepBuilder::PreemptFor(const RequestState& beneficiary) {
  const std::vector<RequestState*>& running = state_.queues.running();
  candidates_.clear();
  for (const RequestState* request : running) {
    // One that is in this step already is too late to be chosen.
    candidates_.push_back({.rank = request->rank,
                           .cost_tokens = request->computed_tokens(),
                           .immune = Immune(state_.config, *request) || request->ending() ||
                                     request->last_step == record_->step});
  }
  const std::optional<size_t> victim = ChooseVictim(candidates_, beneficiary.rank);
  if (!victim) return false;
  state_.Preempt(running[*victim], plan_);
  short_of_blocks_ = true;
  return true;
}

int32_t StepBuilder::LongestChunk() const {
  const int32_t chunk = state_.config.max_prefill_chunk;
  const int32_t budget = state_.config.max_num_batched_tokens;
  return chunk > 0 ? std::min(chunk, budget) : budget;
}

int32_t StepBuilder::FitWindows(const SequenceState& choice, int32_t num_tokens, bool may_preempt) {
  const KvManager& kv = state_.kv;
  const RequestState& request = *choice.request;
  if (kv.num_windowed() == 0) return num_tokens;
  while (true) {
    const int64_t available = request.spare.num_blocks() + kv.num_free();
    const int64_t end = int64_t{choice.computed} + num_tokens;
    if (kv.WindowsMissing(choice.table, choice.computed, end) <= available) return num_tokens;
    const int64_t rows = kv.BlocksFor(choice.computed) + available / kv.num_windowed();
    const int64_t fits = rows * kv.block_size() - choice.computed;
    if (fits > 0) return static_cast<int32_t>(std::min<int64_t>(fits, num_tokens));
    // Its own steps in flight are about to leave some behind.
    const bool slides =
        SetsAside(state_.config, request) ||
        (request.uncommitted_slices > 0 && kv.BlocksSliding(choice.table, choice.computed) > 0);
    if (!slides && !WaitFor(kv.num_windowed()) && may_preempt && PreemptFor(request)) continue;
    short_of_blocks_ = true;
    return 0;
  }
}

void StepBuilder::PrefillChoices(RequestState* request, bool may_preempt) {
  // What is computed in this step is there for those that share it in the next one.
  const int32_t source_computed = request->source_computed;
  const uint32_t ready = request->beams == nullptr ? 0 : request->beams->Ready();
  for (SequenceState& choice : request->choices) {
    if (!choice.active || choice.decoding || budget_ == 0) continue;
    const bool goes_on = request->beams == nullptr ? choice.awaits <= source_computed
                                                   : (ready >> choice.choice_index & 1) != 0;
    if (goes_on) Prefill(&choice, may_preempt);
  }
}

void StepBuilder::Prefill(SequenceState* choice, bool may_preempt) {
  RequestState* request = choice->request;
  const int32_t left = choice->num_known() - choice->computed;
  const int32_t num_tokens =
      FitWindows(*choice, std::min({left, budget_, LongestChunk()}), may_preempt);
  if (num_tokens == 0) return;
  const int32_t first = choice->computed;
  std::vector<BlockReplacement> lent;
  OCTAVO_CHECK(state_.kv.ReserveWindows(&choice->table, first, int64_t{first} + num_tokens,
                                        &request->spare, &lent),
               "sequence=", choice->id, " tokens=", num_tokens);
  std::vector<BlockId> added;
  if (choice->table.promised() > 0) {
    state_.kv.TakePromised(&choice->table, int64_t{first} + num_tokens, &added);
  }
  SeqSlice& slice = AddSlice(choice, num_tokens, /*sample=*/num_tokens == left);
  slice.tokens.assign(choice->tokens.begin() + first, choice->tokens.begin() + first + num_tokens);
  if (!choice->started) {
    Begin(choice, &slice);
  } else {
    slice.new_blocks = std::move(added);
    slice.replaced = std::move(lent);
  }
  record_->prefill_tokens += num_tokens;
  if (choice == request->source && request->OwesScores()) Score(*request, first, &slice);
  if (slice.sample && !request->forked) Fork(choice, &slice);
}

void StepBuilder::Score(const RequestState& request, int32_t first, SeqSlice* slice) {
  // Position p gives the score of token p + 1; steps in flight bring those of earlier positions.
  const int32_t begin = std::max(first, request.scored - 1);
  const int32_t end = std::min(first + slice->num_tokens, request.prompt_tokens - 1);
  if (begin >= end) return;
  ScoreRows& score = slice->score.emplace();
  score.first_row = begin - first;
  score.num_top = request.request.prompt_logprobs;
  const auto tokens = request.source->tokens.begin();
  score.targets.assign(tokens + begin + 1, tokens + end + 1);
  InFlightSlice& record = record_->slices.back();
  record.first_scored = begin + 1;
  record.num_scored = end - begin;
}

void StepBuilder::Fork(SequenceState* parent, SeqSlice* slice) {
  RequestState* request = parent->request;
  request->forked = true;
  request->num_active = request->request.n;
  slice->forks.reserve(request->choices.size() - 1);
  for (SequenceState& child : request->choices) {
    if (&child == parent) continue;
    child.active = child.started = child.decoding = true;
    child.tokens.reserve(static_cast<size_t>(request->max_cached_tokens()) + 1);
    child.tokens = parent->tokens;
    if (parent->chain.enabled) child.chain.digests.reserve(parent->chain.digests.capacity());
    child.chain = parent->chain;
    child.computed = parent->computed;
    child.publish_at = parent->publish_at;
    state_.kv.Prepare(&child.table, request->max_cached_tokens());
    state_.kv.Fork(&parent->table, state_.kv.BlocksFor(child.computed), &child.table);
    slice->forks.push_back({child.id, static_cast<uint32_t>(child.choice_index)});
    ++request->uncommitted_slices;
    ++child.uncommitted_samples;
    record_->slices.push_back({&child, child.computed, /*sample=*/true});
  }
}

void StepBuilder::ComputeSource(RequestState* request) {
  const int32_t before = std::exchange(request->source_computed, request->source->computed);
  if (state_.kv.num_windowed() == 0) return;
  for (SequenceState& choice : request->choices) {
    if (choice.awaits <= before || choice.awaits > request->source_computed) continue;
    state_.kv.ShareWindows(request->source->table, choice.awaits, &choice.table);
  }
}

SeqSlice& StepBuilder::AddSlice(SequenceState* choice, int32_t num_tokens, bool sample) {
  RequestState* request = choice->request;
  SeqSlice& slice = plan_->slices.emplace_back();
  slice.sequence = choice->id;
  slice.context_length = choice->computed;
  slice.num_tokens = num_tokens;
  slice.sample = sample;
  state_.kv.Fill(choice->table, choice->computed, int64_t{choice->computed} + num_tokens);
  choice->computed += num_tokens;
  if (choice == request->source) {
    if (request->choices.size() > 1) {
      ComputeSource(request);
    } else {
      request->source_computed = choice->computed;
    }
  }
  request->last_step = record_->step;
  ++request->uncommitted_slices;
  if (sample) {
    ++choice->uncommitted_samples;
    choice->decoding = true;
  }
  OCTAVO_CHECK(num_tokens >= 1 && num_tokens <= budget_, "num_tokens=", num_tokens,
               " budget=", budget_);
  budget_ -= num_tokens;
  record_->tokens += num_tokens;
  record_->slices.push_back({choice, choice->computed, sample});
  return slice;
}

}  // namespace octavo
