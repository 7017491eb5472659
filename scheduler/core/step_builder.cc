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
  plan->slices.reserve(running.size() + 1);
  // By index, and the size anew each time: a decode may preempt its juniors, which come later.
  for (size_t i = 0; i < running.size(); ++i) {
    if (running[i]->decoding && !running[i]->ending()) Decode(running[i]);
  }
  for (size_t i = 0; i < running.size() && budget_ > 0; ++i) {
    if (!running[i]->decoding) Prefill(running[i], {}, /*start=*/false);
  }
  if (!short_of_blocks_) Admit();
}

void StepBuilder::Decode(RequestState* request) {
  std::vector<BlockId> new_blocks;
  if (!ReserveForDecode(request, &new_blocks)) {
    short_of_blocks_ = true;
    return;
  }
  SeqSlice& slice = AddSlice(request, 1, /*sample=*/true);
  slice.feed_sampled = true;
  slice.new_blocks = std::move(new_blocks);
}

bool StepBuilder::ReserveForDecode(RequestState* request, std::vector<BlockId>* new_blocks) {
  KvManager& kv = state_.kv;
  const int64_t tokens = int64_t{request->computed} + 1;
  const int64_t missing = kv.BlocksMissing(request->table, tokens);
  if (missing == 0) return true;
  while (!kv.Reserve(&request->table, tokens, new_blocks)) {
    // Blocks that steps in flight are about to give back are worth one step's wait; another
    // sequence's work is not.
    if (kv.num_free() + ComingBlocks() - promised_ >= missing) {
      promised_ += missing;
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
      if (request->ending() && request->last_step != record_->step) {
        ending_blocks_ += request->table.num_blocks();
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
                           .cost_tokens = request->computed,
                           .immune = Immune(state_.config, *request) || request->ending()});
  }
  const std::optional<size_t> victim = ChooseVictim(candidates_, beneficiary.rank);
  if (!victim) return false;
  OCTAVO_CHECK(running[*victim]->last_step != record_->step, "victim is in the step being built");
  state_.Preempt(running[*victim], /*by_reset=*/false);
  short_of_blocks_ = true;
  return true;
}

void StepBuilder::Prefill(RequestState* request, std::vector<BlockId> new_blocks, bool start) {
  const int32_t chunk = state_.config.max_prefill_chunk;
  const int32_t left = request->num_known() - request->computed;
  const int32_t num_tokens = std::min({left, budget_, chunk > 0 ? chunk : left});
  const int32_t first = request->computed;
  SeqSlice& slice = AddSlice(request, num_tokens, /*sample=*/num_tokens == left);
  slice.tokens.assign(request->tokens.begin() + first,
                      request->tokens.begin() + first + num_tokens);
  slice.new_blocks = std::move(new_blocks);
  // One request is one sequence, so its choice index is 0.
  if (start) slice.start = SequenceStart{request->request.sampling, 0};
  record_->prefill_tokens += num_tokens;
}

void StepBuilder::Admit() {
  if (state_.queues.head() == nullptr) return;
  const size_t max_running = static_cast<size_t>(MaxRunning(state_.config));
  KvManager& kv = state_.kv;
  int64_t next_step_blocks = NextStepBlocks();
  while (RequestState* head = state_.queues.head()) {
    if (budget_ == 0 || state_.queues.running().size() >= max_running) return;
    // Its last token may still be in flight, and with it the end of the request.
    if (head->uncommitted_slices > 0) return;
    const int64_t tokens = NeededTokens(state_.config, *head);
    const int64_t reserve =
        state_.queues.running().empty() ? 0 : AdmissionReserve(state_.config, next_step_blocks);
    if (kv.BlocksFor(tokens) > kv.num_free() - reserve) return;
    kv.Prepare(&head->table, head->max_cached_tokens());
    head->tokens.reserve(static_cast<size_t>(head->max_cached_tokens()) + 1);
    std::vector<BlockId> new_blocks;
    OCTAVO_CHECK(kv.Reserve(&head->table, tokens, &new_blocks), "request=", head->rank.id);
    state_.queues.Run(head);
    if (head->first_scheduled == absl::InfiniteFuture()) head->first_scheduled = now_;
    Prefill(head, std::move(new_blocks), /*start=*/true);
    if (!head->ending()) next_step_blocks += kv.BlocksMissing(head->table, head->num_known() + 1);
  }
}

int64_t StepBuilder::NextStepBlocks() const {
  int64_t blocks = 0;
  for (const RequestState* request : state_.queues.running()) {
    if (request->ending()) continue;
    const int32_t next = std::max(request->computed, request->num_known()) + 1;
    blocks += state_.kv.BlocksMissing(request->table, next);
  }
  return blocks;
}

SeqSlice& StepBuilder::AddSlice(RequestState* request, int32_t num_tokens, bool sample) {
  SeqSlice& slice = plan_->slices.emplace_back();
  slice.sequence = request->sequence;
  slice.context_length = request->computed;
  slice.num_tokens = num_tokens;
  slice.sample = sample;
  request->computed += num_tokens;
  request->last_step = record_->step;
  ++request->uncommitted_slices;
  if (sample) {
    ++request->uncommitted_samples;
    request->decoding = true;
  }
  OCTAVO_CHECK(num_tokens >= 1 && num_tokens <= budget_, "num_tokens=", num_tokens,
               " budget=", budget_);
  budget_ -= num_tokens;
  record_->tokens += num_tokens;
  record_->slices.push_back({request, request->computed, sample});
  return slice;
}

}  // namespace octavo
