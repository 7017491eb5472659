#include "scheduler/core/step_builder.h"

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "scheduler/core/admission.h"

namespace octavo {

StepBuilder::StepBuilder(CoreState* state, absl::Time now, std::vector<VictimCandidate>* candidates)
    : state_(*state),
      now_(now),
      candidates_(*candidates),
      budget_(state->config.max_num_batched_tokens) {}

void StepBuilder::Build(StepPlan* plan, InFlightStep* record) {
  plan_ = plan;
  record_ = record;
  const std::vector<RequestState*>& running = state_.queues.running();
  plan->slices.reserve(std::max(running.size(), state_.last_slices) + 1);
  // By index, and the size anew each time: a decode may preempt its juniors, which come later.
  for (size_t i = 0; i < running.size(); ++i) {
    for (SequenceState& choice : running[i]->choices) {
      if (choice.active && choice.decoding && !choice.ending()) Decode(&choice);
    }
  }
  for (size_t i = 0; i < running.size() && budget_ > 0; ++i) {
    // What the source computes in this step is there for the others in the next one.
    const int32_t ready = running[i]->source_computed;
    for (SequenceState& choice : running[i]->choices) {
      if (choice.active && !choice.decoding && choice.awaits <= ready && budget_ > 0) {
        Prefill(&choice);
      }
    }
  }
  if (!short_of_blocks_) Admit();
}

void StepBuilder::Decode(SequenceState* choice) {
  std::vector<BlockId> new_blocks;
  std::optional<CopyOnWrite> copy;
  if (!ReserveForDecode(choice, &new_blocks, &copy)) {
    short_of_blocks_ = true;
    return;
  }
  SeqSlice& slice = AddSlice(choice, 1, /*sample=*/true);
  slice.feed_sampled = true;
  slice.new_blocks = std::move(new_blocks);
  if (copy.has_value()) {
    plan_->copies.push_back(copy->copy);
    slice.replaced.push_back({copy->index, copy->copy.target});
  }
}

bool StepBuilder::ReserveForDecode(SequenceState* choice, std::vector<BlockId>* new_blocks,
                                   std::optional<CopyOnWrite>* copy) {
  KvManager& kv = state_.kv;
  RequestState* request = choice->request;
  while (!kv.ReserveToWrite(&choice->table, choice->computed, &request->spare, new_blocks, copy)) {
    // Blocks that steps in flight are about to give back are worth one step's wait; another
    // request's work is not.
    if (kv.num_free() + ComingBlocks() - promised_ >= 1) {
      ++promised_;
      return false;
    }
    if (!PreemptFor(*request)) return false;
  }
  return true;
}

int64_t StepBuilder::ComingBlocks() {
  if (ending_blocks_ < 0) {
    ending_blocks_ = 0;
    for (const RequestState* request : state_.queues.running()) {
      if (request->last_step == record_->step) continue;
      for (const SequenceState& choice : request->choices) {
        if (choice.active && choice.ending()) {
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
    candidates_.push_back({.rank = request->rank,
                           .cost_tokens = request->computed_tokens(),
                           .immune = Immune(state_.config, *request) || request->ending()});
  }
  const std::optional<size_t> victim = ChooseVictim(candidates_, beneficiary.rank);
  if (!victim) return false;
  OCTAVO_CHECK(running[*victim]->last_step != record_->step, "victim is in the step being built");
  state_.Preempt(running[*victim], /*by_reset=*/false);
  short_of_blocks_ = true;
  return true;
}

void StepBuilder::Prefill(SequenceState* choice) {
  RequestState* request = choice->request;
  const int32_t chunk = state_.config.max_prefill_chunk;
  const int32_t left = choice->num_known() - choice->computed;
  const int32_t num_tokens = std::min({left, budget_, chunk > 0 ? chunk : left});
  const int32_t first = choice->computed;
  SeqSlice& slice = AddSlice(choice, num_tokens, /*sample=*/num_tokens == left);
  slice.tokens.assign(choice->tokens.begin() + first, choice->tokens.begin() + first + num_tokens);
  if (!choice->started) {
    choice->started = true;
    slice.start =
        SequenceStart{request->request.sampling, static_cast<uint32_t>(choice->choice_index)};
    slice.new_blocks = choice->table.blocks();
  }
  record_->prefill_tokens += num_tokens;
  if (slice.sample && !request->forked) Fork(choice, &slice);
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
    state_.kv.Fork(parent->table, state_.kv.BlocksFor(child.computed), &child.table);
    slice->forks.push_back({child.id, static_cast<uint32_t>(child.choice_index)});
    ++request->uncommitted_slices;
    ++child.uncommitted_samples;
    record_->slices.push_back({&child, child.computed, /*sample=*/true});
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
  if (choice == request->source) request->source_computed = choice->computed;
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
