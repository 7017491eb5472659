#include "tools/simulate/simulation.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/time/time.h"

namespace octavo::simulate {
namespace {

constexpr int64_t kStepsPerProgress = 4096;

double SecondsOf(absl::Time time) { return absl::ToDoubleSeconds(time - absl::UnixEpoch()); }

}  // namespace

Simulation::Simulation(const SimulationSetup& setup, const Trace& trace)
    : setup_(setup),
      workload_(&trace, setup.workload),
      scheduler_(setup.scheduler),
      device_(CostModel(setup.device, setup.model, setup.geometry, setup.cards),
              setup.scheduler.vocab_size),
      // In one step admission starts at most max_num_seqs requests and passes over as many.
      queue_limit_(2 * int64_t{setup.scheduler.max_num_seqs} + 1),
      arrivals_(workload_) {
  report_.trace = trace.name;
  report_.requests = workload_.size();
}

SimulationReport Simulation::Run(const ProgressCallback& progress) {
  int64_t steps = 0;
  // Each turn adds, answers or lets time pass; what is left of the workload and of its requests'
  // tokens bounds them.
  while (true) {
    AddArrivals();
    ScheduleSteps();
    if (device_.in_flight() == 0) {
      if (workload_.done()) break;
      // Idle until somebody comes; what arrived was refused.
      Advance(std::max(now_, workload_.next_arrival()));
      continue;
    }
    const double answer = device_.next_answer();
    if (device_.in_flight() < kMaxStepsInFlight && !workload_.done() &&
        workload_.next_arrival() > now_ && workload_.next_arrival() < answer) {
      Advance(workload_.next_arrival());
      continue;
    }
    Advance(answer);
    for (const TokenEvent& event : scheduler_.Commit(device_.TakeAnswer())) Deliver(event);
    if (++steps % kStepsPerProgress == 0 && progress &&
        !progress(report_.requests_finished + report_.requests_refused, report_.requests)) {
      report_.interrupted = true;
      break;
    }
  }
  if (progress && !report_.interrupted) progress(report_.requests, report_.requests);
  report_.seconds = now_;
  report_.device_seconds = device_.busy_seconds();
  report_.stats = scheduler_.stats();
  return std::move(report_);
}

void Simulation::AddArrivals() {
  while (!workload_.done() && workload_.next_arrival() <= now_ &&
         scheduler_.stats().waiting < queue_limit_) {
    ++taken_;
    const TraceRequest lengths = workload_.next_lengths();
    const double arrival = workload_.next_arrival();
    // Before the prompt is made up: it may be of any length.
    const int64_t length = int64_t{lengths.prompt_tokens} + lengths.output_tokens;
    absl::Status added;
    if (length > setup_.scheduler.max_model_len) {
      added = absl::InvalidArgumentError(
          absl::StrCat("the prompt has ", lengths.prompt_tokens, " tokens and the answer ",
                       lengths.output_tokens, ": together ", length, "; max_model_len is ",
                       setup_.scheduler.max_model_len));
      workload_.Skip();
    } else {
      Request request = workload_.Take();
      const RequestId id = request.id;
      const size_t choices = static_cast<size_t>(request.n);
      added = scheduler_.Add(std::move(request));
      if (added.ok()) {
        Live& live = live_[id];
        live.arrival = arrival;
        live.prompt_tokens = lengths.prompt_tokens;
        live.last_token.assign(choices, -1.0);
      }
    }
    if (added.ok()) continue;
    if (report_.requests_refused++ == 0) report_.first_refusal = std::string(added.message());
  }
}

void Simulation::ScheduleSteps() {
  while (device_.in_flight() < kMaxStepsInFlight) {
    const std::optional<StepPlan> plan =
        scheduler_.Schedule(absl::UnixEpoch() + absl::Seconds(now_));
    if (!plan.has_value()) return;
    device_.Submit(*plan, now_);
  }
}

void Simulation::Deliver(const TokenEvent& event) {
  const auto found = live_.find(event.request);
  Live& live = found->second;
  double& last = live.last_token[static_cast<size_t>(event.choice_index)];
  if (last >= 0) {
    report_.itl_seconds.Add(now_ - last);
  } else if (event.choice_index == 0) {
    report_.ttft_seconds.Add(now_ - live.arrival);
    report_.queue_seconds.Add(std::max(0.0, SecondsOf(event.first_scheduled) - live.arrival));
  }
  last = now_;
  if (event.finish.has_value()) report_.output_tokens += event.generated_tokens;
  if (!event.request_ended) return;
  report_.e2e_seconds.Add(now_ - live.arrival);
  report_.prompt_tokens += live.prompt_tokens;
  ++report_.requests_finished;
  live_.erase(found);
}

void Simulation::Advance(double until) {
  report_.levels.Add(NowLevels(), until - now_);
  now_ = until;
}

Levels Simulation::NowLevels() {
  for (; !arrivals_.done() && arrivals_.next_arrival() <= now_; arrivals_.Skip()) ++arrived_;
  const SchedulerStats stats = scheduler_.stats();
  Levels levels{};
  levels[kFreeBlocks] = static_cast<double>(stats.free_blocks);
  levels[kCachedBlocks] = static_cast<double>(stats.cached_blocks);
  levels[kActiveBlocks] = static_cast<double>(stats.active_blocks);
  levels[kSharedBlocks] = static_cast<double>(stats.shared_blocks);
  levels[kSavedBlocks] = static_cast<double>(stats.saved_blocks);
  levels[kHeldSlots] = static_cast<double>(stats.held_slots);
  levels[kFilledSlots] = static_cast<double>(stats.filled_slots);
  const SlotUse slots = scheduler_.slot_use();
  levels[kReservedSlots] = static_cast<double>(slots.reserved);
  levels[kInternalSlots] = static_cast<double>(slots.internal);
  levels[kExternalSlots] = static_cast<double>(slots.external());
  levels[kLeftOverSlots] = static_cast<double>(slots.left_over());
  levels[kSwapBlocks] = static_cast<double>(stats.used_swap_blocks);
  levels[kRunning] = static_cast<double>(stats.running);
  levels[kWaiting] = static_cast<double>(stats.waiting + arrived_ - taken_);
  return levels;
}

}  // namespace octavo::simulate
