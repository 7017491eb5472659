// Scheduler: what the answers to beams lead to.
#include <algorithm>
#include <utility>

#include "common/check.h"
#include "scheduler/core/admission.h"
#include "scheduler/core/beam_group.h"
#include "scheduler/core/core_state.h"
#include "scheduler/core/request_state.h"
#include "scheduler/core/scheduler.h"

namespace octavo {

void Scheduler::DeliverToBeam(SequenceState* beam, const SampledToken& sample,
                              std::vector<TokenEvent>* events) {
  RequestState* request = beam->request;
  BeamGroup& beams = *request->beams;
  if (!beams.Answer(*beam, sample.top)) return;
  // Even when the request was preempted in between: its tokens are known all the same.
  OCTAVO_CHECK(request->uncommitted_slices == 0, "request=", request->rank.id,
               " slices=", request->uncommitted_slices);
  const std::vector<BeamSearch::Survivor> survivors = beams.Advance();
  if (beams.search.ended()) {
    EndBeams(request, /*aborted=*/false, events);
  } else {
    Reparent(request, survivors);
  }
}

void Scheduler::Reparent(RequestState* request,
                         const std::vector<BeamSearch::Survivor>& survivors) {
  CoreState& state = *state_;
  KvManager& kv = state.kv;
  BeamGroup& beams = *request->beams;
  const bool running = request->phase == Phase::kRunning;
  const std::vector<SequenceState*> parents = beams.live;
  std::vector<SequenceState*> next(survivors.size(), nullptr);
  std::vector<bool> lives_on(parents.size(), false);
  for (size_t rank = 0; rank < survivors.size(); ++rank) {
    const size_t parent = static_cast<size_t>(survivors[rank].parent);
    if (!lives_on[parent]) next[rank] = parents[parent];
    lives_on[parent] = true;
  }
  const int64_t free_before = kv.num_free();
  for (size_t i = 0; i < parents.size(); ++i) {
    if (lives_on[i]) continue;
    if (running) state.DropTable(parents[i]);
    parents[i]->active = false;
    parents[i]->tokens.clear();
    parents[i]->chain = {};
  }
  if (running && Immune(state.config, *request)) {
    // What its dead beams held alone is there for those that are born.
    OCTAVO_CHECK(kv.ReserveSpare(&request->spare, kv.num_free() - free_before));
  }
  // Tables and tokens are shared before anyone's grow.
  auto unused = request->choices.begin();
  for (size_t rank = 0; rank < survivors.size(); ++rank) {
    if (next[rank] != nullptr) continue;
    while (unused->active) ++unused;
    SequenceState* child = next[rank] = &*unused;
    SequenceState* parent = parents[static_cast<size_t>(survivors[rank].parent)];
    child->active = true;
    child->tokens.reserve(static_cast<size_t>(request->max_cached_tokens()) + 1);
    child->tokens = parent->tokens;
    child->chain = parent->chain;
    child->computed = parent->computed;
    child->publish_at = parent->publish_at;
    child->decoding = parent->decoding;
    if (!running) continue;
    kv.Prepare(&child->table, request->max_cached_tokens());
    kv.Fork(&parent->table, kv.NumRows(parent->table), &child->table);
  }
  for (size_t rank = 0; rank < survivors.size(); ++rank) {
    next[rank]->tokens.push_back(survivors[rank].token);
    next[rank]->awaits = 0;  // all are computed; the slot it began with may be another beam's now
  }
  request->num_active = static_cast<int32_t>(next.size());
  beams.SetLive(std::move(next));
  if (!running) state.queues.RecountWaiting(request);
}

void Scheduler::EndBeams(RequestState* request, bool aborted, std::vector<TokenEvent>* events) {
  const std::vector<Hypothesis> hypotheses =
      aborted ? std::vector<Hypothesis>() : request->beams->search.Finished();
  const auto add = [&](int32_t choice) -> TokenEvent& {
    TokenEvent& event = events->emplace_back();
    event.request = request->rank.id;
    event.choice_index = choice;
    event.first_scheduled = request->first_scheduled;
    return event;
  };
  FinishReason best = aborted ? FinishReason::kAbort : FinishReason::kLength;
  for (int32_t choice = 0; choice < request->request.n; ++choice) {
    FinishReason reason = best;
    int32_t generated = 0;
    double score = 0;
    if (static_cast<size_t>(choice) < hypotheses.size()) {
      const Hypothesis& hypothesis = hypotheses[static_cast<size_t>(choice)];
      for (size_t i = 0; i < hypothesis.tokens.size(); ++i) {
        TokenEvent& event = add(choice);
        event.token = hypothesis.tokens[i];
        event.logprob = hypothesis.logprobs[i];
      }
      reason = hypothesis.stopped ? FinishReason::kStop : FinishReason::kLength;
      generated = static_cast<int32_t>(hypothesis.tokens.size());
      score = hypothesis.score;
      if (choice == 0) best = reason;
    } else {
      add(choice);
    }
    TokenEvent& last = events->back();
    request->FillUsage(request->choices[0], reason, &last);
    last.generated_tokens = generated;
    last.score = score;
    last.request_ended = choice + 1 == request->request.n;
    state_->counters.generated_tokens += static_cast<uint64_t>(generated);
  }
  for (SequenceState& beam : request->choices) {
    if (beam.active && request->phase == Phase::kRunning) state_->DropTable(&beam);
    beam.active = false;
  }
  request->num_active = 0;
  EndRequest(request, best);
}

}  // namespace octavo
