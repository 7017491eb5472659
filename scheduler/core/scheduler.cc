#include "scheduler/core/scheduler.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/executor.h"
#include "common/status_macros.h"
#include "scheduler/core/admission.h"
#include "scheduler/core/beam_group.h"
#include "scheduler/core/core_state.h"
#include "scheduler/core/prompt_scores.h"
#include "scheduler/core/request_state.h"
#include "scheduler/core/step_builder.h"

namespace octavo {

Scheduler::Scheduler(const SchedulerConfig& config) {
  const absl::Status valid = Validate(config);
  OCTAVO_CHECK(valid.ok(), valid.message());
  state_ = std::make_unique<CoreState>(config);
}

Scheduler::~Scheduler() = default;

absl::Status Scheduler::Add(Request request) {
  CoreState& state = *state_;
  OCTAVO_RETURN_IF_ERROR(CheckRequest(state.config, request));
  if (state.requests.contains(request.id)) {
    return absl::AlreadyExistsError(absl::StrCat("request id ", request.id, " is in use"));
  }
  OCTAVO_RETURN_IF_ERROR(CheckQueue(state.config, request,
                                    static_cast<int64_t>(state.queues.waiting().size()),
                                    state.queues.waiting_tokens()));
  auto added = std::make_unique<RequestState>(std::move(request), state.next_sequence);
  state.next_sequence += added->choices.size();
  const Request& kept = added->request;
  if (kept.prefix_cache) {
    state.kv.EnableCaching(&added->choices[0].chain, kept.adapter_digest, kept.cache_salt);
  }
  state.queues.Wait(added.get());
  state.requests.emplace(added->rank.id, std::move(added));
  return absl::OkStatus();
}

void Scheduler::Abort(RequestId id) {
  const auto found = state_->requests.find(id);
  if (found == state_->requests.end()) return;
  RequestState* request = found->second.get();
  if (request->beams != nullptr) {
    EndBeams(request, /*aborted=*/true, &state_->aborts);
    return ForgetEnded();
  }
  if (!request->forked) {  // choices that were never born end like the first
    for (SequenceState& choice : request->choices) choice.active = true;
    request->forked = true;
    request->num_active = request->request.n;
  }
  for (SequenceState& choice : request->choices) {
    if (choice.active) EndChoice(&choice, FinishReason::kAbort, &state_->aborts.emplace_back());
  }
  ForgetEnded();
}

std::optional<StepPlan> Scheduler::Schedule(absl::Time now) {
  CoreState& state = *state_;
  if (state.in_flight.size() >= kMaxStepsInFlight) return std::nullopt;
  InFlightStep record;
  if (!state.spare_steps.empty()) {
    record = std::move(state.spare_steps.back());
    state.spare_steps.pop_back();
  }
  record.step = state.next_step;
  StepPlan plan;
  StepBuilder(&state, now, &state.victim_scratch).Build(&plan, &record);
  // One that only swaps out is a step like any other: blocks come back when it is committed.
  if (plan.slices.empty() && plan.swap_outs.empty()) {
    OCTAVO_CHECK(!state.in_flight.empty() || state.requests.empty(),
                 "no progress with requests=", state.requests.size());
    state.spare_steps.push_back(std::move(record));
    return std::nullopt;
  }
  plan.epoch = state.epoch;
  plan.step = state.next_step++;
  plan.dropped.swap(state.dropped);
  record.swap_outs = std::ssize(plan.swap_outs);
  record.swap_ins = std::ssize(plan.swap_ins);
  state.counters.swapped_out_blocks += static_cast<uint64_t>(record.swap_outs);
  state.counters.swapped_in_blocks += static_cast<uint64_t>(record.swap_ins);
  state.last_slices = plan.slices.size();
  state.in_flight.push_back(std::move(record));
  return plan;
}

absl::Status Scheduler::CheckResult(const StepResult& result) const {
  if (state_->in_flight.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("result of step ", result.step, "; no step is in flight"));
  }
  const InFlightStep& record = state_->in_flight.front();
  if (result.epoch != state_->epoch || result.step != record.step) {
    return absl::InvalidArgumentError(absl::StrCat("result of epoch ", result.epoch, " step ",
                                                   result.step, "; expected epoch ", state_->epoch,
                                                   " step ", record.step));
  }
  size_t next = 0;
  for (const InFlightSlice& slice : record.slices) {
    if (!slice.sample) continue;
    if (next == result.samples.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("step ", result.step, " has ", next, " samples; the plan asked for more"));
    }
    const SampledToken& sample = result.samples[next++];
    if (sample.sequence != slice.sequence->id) {
      return absl::InvalidArgumentError(absl::StrCat("sample ", next - 1, " of step ", result.step,
                                                     " is of sequence ", sample.sequence,
                                                     "; expected ", slice.sequence->id));
    }
    if (sample.token < 0 || sample.token >= state_->config.vocab_size) {
      return absl::InvalidArgumentError(
          absl::StrCat("sequence ", sample.sequence, " sampled token ", sample.token,
                       "; ids are in [0, ", state_->config.vocab_size, ")"));
    }
    if (slice.sequence->request->beams != nullptr) {
      OCTAVO_RETURN_IF_ERROR(CheckBeamAnswer(sample,
                                             slice.sequence->request->request.sampling.num_logprobs,
                                             state_->config.vocab_size));
    }
  }
  if (next != result.samples.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "step ", result.step, " has ", result.samples.size(), " samples; expected ", next));
  }
  return CheckScores(record, result);
}

std::vector<TokenEvent> Scheduler::Commit(const StepResult& result) {
  const absl::Status valid = CheckResult(result);
  OCTAVO_CHECK(valid.ok(), valid.message());
  CoreState& state = *state_;
  InFlightStep record = std::move(state.in_flight.front());
  state.in_flight.erase(state.in_flight.begin());
  state.kv.CommitStep(record.step);
  state.swap.CommitStep(record.step);
  state.costs.Observe({.prefill_tokens = record.prefill_tokens,
                       .decode_tokens = record.tokens - record.prefill_tokens,
                       .compute_seconds = result.compute_seconds,
                       .swap_out_bytes = record.swap_outs * state.config.block_bytes,
                       .swap_out_seconds = result.swap_out_seconds,
                       .swap_in_bytes = record.swap_ins * state.config.block_bytes,
                       .swap_in_seconds = result.swap_in_seconds});
  ++state.counters.steps;
  state.counters.prompt_tokens += record.prefill_tokens;

  std::vector<TokenEvent> events;
  events.reserve(result.samples.size() + result.scores.size());
  auto sample = result.samples.begin();
  const bool windowed = Windowed(state.config);
  auto scores = result.scores.begin();
  for (const InFlightSlice& slice : record.slices) {
    SequenceState* choice = slice.sequence;
    RequestState* request = choice->request;
    --request->uncommitted_slices;
    // One that waits again has no table any more; it does not run again before all its steps are
    // committed, so this table is still the one that the slice wrote to.
    if (slice.end >= choice->publish_at && choice->active && request->phase == Phase::kRunning) {
      state.kv.Publish(choice->table, choice->tokens,
                       std::min(slice.end, FindableTokens(state.config, *request)), &choice->chain);
      state.producers.Commit(choice, slice.end);
      choice->publish_at = (slice.end / state.config.block_size + 1) * state.config.block_size;
    }
    if (windowed && choice->active && request->phase == Phase::kRunning) {
      state.kv.Slide(&choice->table, slice.end,
                     SetsAside(state.config, *request) ? &request->spare : nullptr);
    }
    const SliceScores* scored = slice.num_scored > 0 ? &*scores++ : nullptr;
    if (scored != nullptr && choice->active) {
      DeliverScores(slice, *scored, &events.emplace_back());
    }
    if (!slice.sample) continue;
    --choice->uncommitted_samples;
    const SampledToken& sampled = *sample++;
    // One that stopped, or was aborted, after this slice was scheduled: the token is discarded.
    if (!choice->active) continue;
    OCTAVO_CHECK(slice.end == choice->num_known(), "sequence=", choice->id, " sampled position ",
                 slice.end, " after ", choice->num_known(), " tokens");
    if (request->beams == nullptr) {
      Deliver(choice, sampled, &events.emplace_back());
    } else {
      DeliverToBeam(choice, sampled, &events);
    }
  }
  ForgetEnded();
  record.slices.clear();
  record.tokens = record.prefill_tokens = 0;
  state.spare_steps.push_back(std::move(record));
  return events;
}

void Scheduler::Deliver(SequenceState* choice, const SampledToken& sample, TokenEvent* event) {
  RequestState* request = choice->request;
  choice->tokens.push_back(sample.token);
  if (request->phase == Phase::kWaiting) state_->queues.CountWaitingToken(request);
  ++state_->counters.generated_tokens;
  event->request = request->rank.id;
  event->choice_index = choice->choice_index;
  event->token = sample.token;
  event->logprob = sample.logprob;
  event->top_logprobs = sample.top;
  event->first_scheduled = request->first_scheduled;
  if (request->IsEos(sample.token)) {
    EndChoice(choice, FinishReason::kStop, event);
  } else if (choice->num_known() >= choice->end) {
    EndChoice(choice, FinishReason::kLength, event);
  }
}

void Scheduler::EndChoice(SequenceState* choice, FinishReason reason, TokenEvent* event) {
  RequestState* request = choice->request;
  event->request = request->rank.id;
  event->choice_index = choice->choice_index;
  event->first_scheduled = request->first_scheduled;
  request->FillUsage(*choice, reason, event);
  choice->active = false;
  if (request->phase == Phase::kRunning) state_->DropTable(choice);
  if (--request->num_active > 0) return;
  event->request_ended = true;
  EndRequest(request, reason);
}

void Scheduler::EndRequest(RequestState* request, FinishReason reason) {
  CoreState& state = *state_;
  SchedulerStats& counters = state.counters;
  switch (reason) {
    case FinishReason::kStop:
      ++counters.finished_stop;
      break;
    case FinishReason::kLength:
      ++counters.finished_length;
      break;
    case FinishReason::kAbort:
      ++counters.finished_abort;
      break;
  }
  if (request->first_scheduled != absl::InfiniteFuture()) {
    ++state.ended_requests;
    state.ended_tokens += request->prompt_tokens + request->generated_tokens();
  }
  state.kv.Release(&request->spare, request->last_step, /*ended=*/true);
  state.ForgetRetained(request, request->last_step);
  state.queues.End(request);
  auto owned = state.requests.extract(request->rank.id);
  // Even when no step names it any more: the caller still looks at it, then calls ForgetEnded.
  state.ended.push_back(std::move(owned.mapped()));
}

void Scheduler::ForgetEnded() {
  std::erase_if(state_->ended, [](const std::unique_ptr<RequestState>& request) {
    return request->uncommitted_slices == 0;
  });
}

void Scheduler::ResetWorkers() {
  CoreState& state = *state_;
  ++state.epoch;
  state.next_step = 1;
  state.kv.ForgetSteps();
  state.swap.ForgetSteps();
  for (InFlightStep& record : state.in_flight) {
    for (const InFlightSlice& slice : record.slices) {
      slice.sequence->request->uncommitted_slices = 0;
      slice.sequence->uncommitted_samples = 0;
    }
  }
  state.in_flight.clear();
  for (const auto& [id, request] : state.requests) {
    request->last_step = 0;
    state.ForgetRetained(request.get(), 0);
  }
  while (!state.queues.running().empty()) {
    state.Preempt(state.queues.running().front(), nullptr);
  }
  state.dropped.clear();
  for (const auto& [id, request] : state.requests) {
    // The step that sampled its first tokens is lost, and with it the fork.
    if (request->generated_tokens() == 0) request->Unfork();
  }
  ForgetEnded();
}

int64_t Scheduler::FlushPrefixCache() {
  ++state_->counters.prefix_flushes;
  state_->producers.Clear();
  for (const auto& [id, request] : state_->requests) {
    state_->ForgetRetained(request.get(), request->last_step);
  }
  return state_->kv.FlushCache();
}

Epoch Scheduler::epoch() const { return state_->epoch; }

bool Scheduler::idle() const { return state_->requests.empty() && state_->in_flight.empty(); }

SchedulerStats Scheduler::stats() const {
  const CoreState& state = *state_;
  SchedulerStats stats = state.counters;
  stats.num_blocks = state.kv.num_blocks();
  stats.num_swap_blocks = state.swap.num_blocks();
  stats.used_swap_blocks = state.swap.num_used();
  stats.prefill_tokens_per_second = state.costs.prefill_tokens_per_second();
  stats.swap_out_bytes_per_second = state.costs.swap_out_bytes_per_second();
  stats.swap_in_bytes_per_second = state.costs.swap_in_bytes_per_second();
  stats.cached_blocks = state.kv.num_cached();
  stats.free_blocks = state.kv.num_unheld() - stats.cached_blocks;
  stats.active_blocks = stats.num_blocks - state.kv.num_unheld();
  stats.shared_blocks = state.kv.num_shared();
  stats.saved_blocks = state.kv.num_saved();
  stats.held_slots = state.kv.held_slots();
  stats.filled_slots = state.kv.filled_slots();
  stats.saved_blocks_total = state.kv.saved_total();
  stats.prefix_evictions = state.kv.evictions();
  stats.copies_on_write = state.kv.copies_on_write();
  stats.running = static_cast<int64_t>(state.queues.running().size());
  stats.waiting = static_cast<int64_t>(state.queues.waiting().size());
  stats.preempted = state.queues.preempted();
  stats.waiting_tokens = state.queues.waiting_tokens();
  stats.steps_in_flight = static_cast<int64_t>(state.in_flight.size());
  if (state.ended_requests > 0) {
    stats.mean_length =
        static_cast<double>(state.ended_tokens) / static_cast<double>(state.ended_requests);
  }
  return stats;
}

std::vector<PreemptionEvent> Scheduler::TakePreemptions() {
  return std::exchange(state_->preemptions, {});
}

std::vector<TokenEvent> Scheduler::TakeAbortEvents() { return std::exchange(state_->aborts, {}); }

}  // namespace octavo
