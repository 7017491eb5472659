#include "tests/sim/scheduler_sim.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/check.h"
#include "common/status_macros.h"
#include "scheduler/core/admission.h"

namespace octavo {
namespace {

constexpr size_t kMaxCommands = 200000;

ShadowWorkerConfig WorkerConfigOf(const SchedulerConfig& config) {
  return {.num_blocks = config.num_blocks,
          .block_size = config.block_size,
          .vocab_size = config.vocab_size,
          .max_model_len = config.max_model_len,
          .max_num_seqs = config.max_num_seqs,
          .max_num_batched_tokens = config.max_num_batched_tokens,
          .group_windows = config.group_windows,
          .contiguous = config.kv_allocation != KvAllocation::kPaged,
          .num_swap_blocks = config.num_swap_blocks};
}

MirrorLimits MirrorLimitsOf(const SchedulerConfig& config) {
  return {.num_blocks = config.num_blocks,
          .block_size = config.block_size,
          .max_model_len = config.max_model_len,
          .max_num_seqs = config.max_num_seqs,
          .max_num_batched_tokens = config.max_num_batched_tokens,
          .vocab_size = config.vocab_size,
          .group_windows = config.group_windows,
          .num_swap_blocks = config.num_swap_blocks};
}

}  // namespace

SchedulerSim::SchedulerSim(const SimScenario& scenario, uint64_t seed)
    : scenario_(scenario),
      random_(seed),
      scheduler_(scenario.scheduler),
      worker_(WorkerConfigOf(scenario.scheduler)),
      mirror_(std::make_unique<TableMirror>(MirrorLimitsOf(scenario.scheduler))) {
  worker_.Reset(scheduler_.epoch());
  worker_.SetReadRule(
      [this](SequenceId reader, SequenceId writer) { return MayRead(reader, writer); });
  for (int32_t i = 0; i < scenario.shared_prompts; ++i) {
    std::vector<TokenId>& prompt = shared_prompts_.emplace_back();
    for (int64_t left = Draw(1, scenario.max_prompt); left > 0; --left) {
      prompt.push_back(static_cast<TokenId>(Draw(0, kSimVocabulary - 1)));
    }
  }
}

int64_t SchedulerSim::Draw(int64_t low, int64_t high) { return Uniform(random_, low, high); }

absl::Status SchedulerSim::Run(SimOutcome* outcome) {
  while (requests_.size() < static_cast<size_t>(scenario_.requests) || !scheduler_.idle()) {
    if (outcome->commands.size() == kMaxCommands) {
      return absl::DeadlineExceededError("requests never end");
    }
    OCTAVO_RETURN_IF_ERROR(Execute(outcome->commands.emplace_back(Draw()), outcome));
  }
  return Finish(outcome);
}

absl::Status SchedulerSim::Replay(std::span<const SimCommand> commands, SimOutcome* outcome) {
  for (const SimCommand& command : commands) OCTAVO_RETURN_IF_ERROR(Execute(command, outcome));
  for (size_t i = 0; !scheduler_.idle(); ++i) {
    if (i == kMaxCommands) return absl::DeadlineExceededError("requests never end");
    OCTAVO_RETURN_IF_ERROR(Execute({.kind = SimCommand::Kind::kSchedule, .now = now_}, outcome));
    OCTAVO_RETURN_IF_ERROR(Execute({.kind = SimCommand::Kind::kCommit, .now = now_}, outcome));
  }
  return Finish(outcome);
}

absl::Status SchedulerSim::Finish(SimOutcome* outcome) {
  OCTAVO_RETURN_IF_ERROR(DrainFacts());
  outcome->stats = scheduler_.stats();
  for (const auto& [id, expected] : requests_) {
    if (!expected.request.beam.has_value()) continue;
    ++outcome->beam_searches;
    outcome->beam_preemptions += expected.preemptions;
  }
  return CheckAllEnded();
}

SimCommand SchedulerSim::Draw() {
  SimCommand command{.now = now_ + absl::Milliseconds(Draw(0, 3))};
  using Kind = SimCommand::Kind;
  const bool full = worker_.submitted() >= static_cast<size_t>(scenario_.steps_in_flight);
  if (requests_.size() < static_cast<size_t>(scenario_.requests) &&
      Chance(scenario_.arrival_permille)) {
    command.kind = Kind::kAdd;
    command.request = DrawRequest();
    command.request.arrival = command.now;
  } else if (Chance(scenario_.abort_permille)) {
    // Ids of ended requests and of none at all are aborted too.
    command.kind = Kind::kAbort;
    command.id = static_cast<RequestId>(Draw(1, static_cast<int64_t>(next_id_)));
  } else if (Chance(scenario_.flush_permille)) {
    command.kind = Kind::kFlush;
  } else if (Chance(scenario_.reset_permille)) {
    command.kind = Kind::kReset;
  } else if (Chance(scenario_.repeat_permille)) {
    command.kind = Kind::kRepeat;
  } else if (worker_.submitted() > 0 && (full || Chance(300))) {
    command.kind = Kind::kCommit;
    // Rates at which now one mode costs less and now the other.
    command.compute_seconds = static_cast<double>(Draw(1, 1000)) * 1e-3;
    command.swap_seconds = static_cast<double>(Draw(1, 1000)) * 1e-6;
  }
  return command;
}

absl::Status SchedulerSim::Execute(const SimCommand& command, SimOutcome* outcome) {
  now_ = command.now;
  absl::Status status;
  switch (command.kind) {
    case SimCommand::Kind::kAdd:
      status = Add(command.request);
      break;
    case SimCommand::Kind::kAbort:
      status = Abort(command.id);
      break;
    case SimCommand::Kind::kFlush:
      scheduler_.FlushPrefixCache();
      ++flushes_;
      break;
    case SimCommand::Kind::kReset:
      status = Reset();
      break;
    case SimCommand::Kind::kSchedule:
      status = Schedule(outcome);
      break;
    case SimCommand::Kind::kCommit:
      status = Commit(command);
      break;
    case SimCommand::Kind::kRepeat:
      status = Repeat(last_result_);
      break;
  }
  OCTAVO_RETURN_IF_ERROR(status);
  scheduler_.CheckInvariants();
  return absl::OkStatus();
}

std::vector<TokenId> SchedulerSim::DrawPrompt() {
  std::vector<TokenId> prompt;
  if (Chance(scenario_.next_turn_permille) && next_id_ > 1) {
    const Expectation& before =
        requests_.at(static_cast<RequestId>(Draw(1, static_cast<int64_t>(next_id_) - 1)));
    prompt = before.request.prompt;
    const std::vector<TokenId>& answer = before.choices[0].received;
    prompt.insert(prompt.end(), answer.begin(), answer.end());
  } else if (Chance(scenario_.shared_permille)) {
    prompt = shared_prompts_[static_cast<size_t>(Draw(0, scenario_.shared_prompts - 1))];
  }
  const int64_t most =
      std::max<int64_t>(1, scenario_.max_prompt - static_cast<int64_t>(prompt.size()));
  for (int64_t left = Draw(prompt.empty() ? 1 : 0, most); left > 0; --left) {
    prompt.push_back(static_cast<TokenId>(Draw(0, kSimVocabulary - 1)));
  }
  if (prompt.size() > static_cast<size_t>(scenario_.max_prompt)) {
    prompt.resize(static_cast<size_t>(scenario_.max_prompt));
  }
  return prompt;
}

Request SchedulerSim::DrawRequest() {
  Request request;
  request.prompt = DrawPrompt();
  request.max_tokens = static_cast<int32_t>(Draw(1, scenario_.max_output));
  request.sampling.seed = random_();
  request.ignore_eos = Chance(300);
  request.eos_ids = {kSimEos};
  request.priority = static_cast<int32_t>(Draw(0, scenario_.priorities - 1));
  request.prefix_cache = !Chance(scenario_.uncached_permille);
  request.cache_salt = std::string(static_cast<size_t>(Draw(0, scenario_.salts - 1)), 's');
  if (Chance(scenario_.scored_permille)) {
    request.prompt_logprobs = static_cast<int32_t>(Draw(0, 3));
  }
  request.n = static_cast<int32_t>(Draw(1, scenario_.max_n));
  if (Chance(scenario_.beam_permille)) DrawBeams(&request);
  while (request.n > 1 && !CheckRequest(scenario_.scheduler, request).ok()) --request.n;
  request.id = next_id_++;
  return request;
}

absl::Status SchedulerSim::Add(const Request& request) {
  Expectation& expected = requests_[request.id];
  expected.request = request;
  expected.choices.resize(static_cast<size_t>(request.n));
  by_sequence_.resize(by_sequence_.size() + static_cast<size_t>(request.num_sequences()),
                      request.id);
  return scheduler_.Add(request);
}

void SchedulerSim::DrawBeams(Request* request) {
  BeamParams& beam = request->beam.emplace();
  beam.length_penalty = std::array{1.0, 0.0, 0.6, 2.0, -1.0}[static_cast<size_t>(Draw(0, 4))];
  beam.early_stopping = static_cast<EarlyStopping>(Draw(0, 2));
  if (Chance(200)) request->eos_ids = {3, kSimEos, 11};
  request->max_tokens = std::min(request->max_tokens, 20);
  beam.width = static_cast<int32_t>(Draw(1, scenario_.max_beam_width));
  request->n = 1;
  while (beam.width > 1 && !CheckRequest(scenario_.scheduler, *request).ok()) --beam.width;
  request->n = static_cast<int32_t>(Draw(1, beam.width));
  if (!CheckRequest(scenario_.scheduler, *request).ok()) request->beam.reset();  // windows
}

bool SchedulerSim::MayRead(SequenceId reader, SequenceId writer) const {
  const RequestId reading = by_sequence_.at(reader);
  const RequestId writing = by_sequence_.at(writer);
  if (reading == writing) return true;
  const Expectation& to = requests_.at(reading);
  const Expectation& from = requests_.at(writing);
  return to.request.prefix_cache && from.request.prefix_cache &&
         to.request.cache_salt == from.request.cache_salt && from.flushes >= to.flushes &&
         scenario_.scheduler.prefix_cache;
}

void SchedulerSim::NoteStarts(const StepPlan& plan) {
  for (const SeqSlice& slice : plan.slices) {
    Expectation& expected = requests_.at(by_sequence_.at(slice.sequence));
    if (!slice.start.has_value() || expected.running) continue;
    expected.running = true;
    expected.flushes = flushes_;
  }
}

absl::Status SchedulerSim::Abort(RequestId id) {
  const auto found = requests_.find(id);
  if (found != requests_.end() && !found->second.ended) found->second.aborted = true;
  scheduler_.Abort(id);
  return DrainFacts();
}

absl::Status SchedulerSim::Reset() {
  std::optional<StepResult> late;
  if (worker_.submitted() > 0) {
    absl::StatusOr<StepResult> result = worker_.Run();
    OCTAVO_RETURN_IF_ERROR(result.status());
    late = *std::move(result);
  }
  const Epoch before = scheduler_.epoch();
  scheduler_.ResetWorkers();
  if (scheduler_.epoch() <= before) return absl::InternalError("the epoch did not advance");
  worker_.Reset(scheduler_.epoch());
  mirror_ = std::make_unique<TableMirror>(MirrorLimitsOf(scenario_.scheduler));
  sampling_.clear();
  OCTAVO_RETURN_IF_ERROR(Repeat(late));
  return DrainFacts();
}

absl::Status SchedulerSim::Repeat(const std::optional<StepResult>& result) const {
  if (!result.has_value() || !scheduler_.CheckResult(*result).ok()) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("the result of step ", result->step, " was taken twice or late (step.1)"));
}

absl::Status SchedulerSim::Schedule(SimOutcome* outcome) {
  if (worker_.submitted() >= static_cast<size_t>(scenario_.steps_in_flight)) {
    return absl::OkStatus();
  }
  std::optional<StepPlan> plan = scheduler_.Schedule(now_);
  OCTAVO_RETURN_IF_ERROR(DrainFacts());
  if (!plan.has_value()) {
    // An engine may ask again before the result is there, for example when a request arrives.
    if (worker_.submitted() > 0 || scheduler_.idle()) return absl::OkStatus();
    return absl::InternalError("nothing in flight and nothing scheduled (life.2)");
  }
  NoteStarts(*plan);
  const absl::Status valid = worker_.Submit(*plan);
  const absl::Status mirrored = Mirror(*plan);
  outcome->plans.push_back(*std::move(plan));
  OCTAVO_RETURN_IF_ERROR(valid);
  OCTAVO_RETURN_IF_ERROR(mirrored);
  return CheckSlots();
}

absl::Status SchedulerSim::CheckSlots() const {
  const SchedulerStats stats = scheduler_.stats();
  const int64_t held = worker_.held_slots();
  const int64_t filled = worker_.filled_slots();
  // A table that no slice has named yet, or a block put aside, is not known to the worker.
  const bool all_known = scenario_.max_n == 1 && scenario_.beam_permille == 0 &&
                         !Windowed(scenario_.scheduler) &&
                         static_cast<int64_t>(worker_.sequences()) == stats.running;
  if (all_known ? stats.held_slots == held && stats.filled_slots == filled
                : stats.held_slots >= held && stats.filled_slots >= filled) {
    return absl::OkStatus();
  }
  return absl::InternalError(absl::StrCat("the worker holds ", held, " slots, ", filled,
                                          " with a token; stats say ", stats.held_slots, " and ",
                                          stats.filled_slots));
}

absl::Status SchedulerSim::Commit(const SimCommand& command) {
  if (worker_.submitted() == 0) return absl::OkStatus();
  absl::StatusOr<StepResult> result = worker_.Run();
  OCTAVO_RETURN_IF_ERROR(result.status());
  result->compute_seconds = command.compute_seconds;
  result->swap_out_seconds = result->swap_in_seconds = command.swap_seconds;
  RecordSamples(*result);
  OCTAVO_RETURN_IF_ERROR(scheduler_.CheckResult(*result));
  const std::vector<TokenEvent> events = scheduler_.Commit(*result);
  const auto sampled = [this](RequestId id) { return !requests_.at(id).request.beam.has_value(); };
  discarded_ += std::count_if(
      result->samples.begin(), result->samples.end(),
      [&](const SampledToken& sample) { return sampled(by_sequence_.at(sample.sequence)); });
  discarded_ -= std::count_if(events.begin(), events.end(), [&](const TokenEvent& event) {
    return event.prompt_logprobs.empty() && sampled(event.request);
  });
  last_result_ = *std::move(result);
  return Receive(events);
}

absl::Status SchedulerSim::Mirror(const StepPlan& plan) {
  OCTAVO_RETURN_IF_ERROR(mirror_->Apply(plan));
  const std::vector<Sampling>* const before = sampling_.empty() ? nullptr : &sampling_.back();
  for (const SeqSlice& slice : plan.slices) {
    const MirroredSequence& sequence = *mirror_->Find(slice.sequence);
    if (!slice.feed_sampled || sequence.last_sampled.has_value()) continue;
    const auto row = static_cast<size_t>(sequence.sampled_row);
    if (before == nullptr || row >= before->size() || (*before)[row].sequence != slice.sequence) {
      return absl::InternalError(absl::StrCat("sequence ", slice.sequence, " is fed row ", row,
                                              " of the step before, which is not its own"));
    }
  }
  std::vector<Sampling> sampling;
  const auto expect = [&](SequenceId sequence, int32_t position) {
    mirror_->ExpectSample(sequence, static_cast<int32_t>(sampling.size()), position);
    sampling.push_back({sequence, position});
  };
  for (const SeqSlice& slice : plan.slices) {
    if (!slice.sample) continue;
    const int32_t position = slice.context_length + slice.num_tokens;
    expect(slice.sequence, position);
    for (const Fork& fork : slice.forks) expect(fork.child, position);
  }
  sampling_.push_back(std::move(sampling));
  return absl::OkStatus();
}

void SchedulerSim::RecordSamples(const StepResult& result) {
  const std::vector<Sampling>& sampling = sampling_.front();
  for (size_t i = 0; i < sampling.size(); ++i) {
    mirror_->RecordSample(sampling[i].sequence, result.samples[i].token, sampling[i].position);
  }
  sampling_.pop_front();
}

absl::Status SchedulerSim::Receive(const std::vector<TokenEvent>& events) {
  for (const TokenEvent& event : events) {
    const auto found = requests_.find(event.request);
    if (found == requests_.end() || found->second.ended) {
      return absl::InternalError(absl::StrCat("event for request ", event.request));
    }
    Expectation& expected = found->second;
    if (event.first_scheduled > now_ && event.finish != FinishReason::kAbort) {
      return absl::InternalError("first_scheduled is in the future");
    }
    if (!event.prompt_logprobs.empty()) {
      OCTAVO_RETURN_IF_ERROR(ReceiveScores(event, &expected));
    }
    Choice& choice = expected.choices.at(static_cast<size_t>(event.choice_index));
    if (choice.ended) return absl::InternalError("event after the end of a choice");
    if (event.token.has_value()) choice.received.push_back(*event.token);
    if (event.finish.has_value()) OCTAVO_RETURN_IF_ERROR(CheckEnd(event, &expected));
  }
  return absl::OkStatus();
}

absl::Status SchedulerSim::ReceiveScores(const TokenEvent& event, Expectation* expected) {
  for (const Choice& choice : expected->choices) {
    if (!choice.received.empty()) {
      return absl::InternalError(
          absl::StrCat("request ", event.request, " got prompt scores after a token"));
    }
  }
  expected->scores.insert(expected->scores.end(), event.prompt_logprobs.begin(),
                          event.prompt_logprobs.end());
  return absl::OkStatus();
}

absl::Status SchedulerSim::CheckScores(const TokenEvent& event, const Expectation& expected) const {
  std::vector<ScoredToken> scores = EvaluateScores(expected.request, kSimVocabulary);
  const bool began = std::any_of(expected.choices.begin(), expected.choices.end(),
                                 [](const Choice& choice) { return !choice.received.empty(); });
  if (event.finish == FinishReason::kAbort && !began && expected.scores.size() < scores.size()) {
    scores.resize(expected.scores.size());
  }
  if (expected.scores == scores) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("request ", event.request, " got ", expected.scores.size(),
                   " prompt scores, or others than the ", scores.size(), " expected"));
}

absl::Status SchedulerSim::CheckEnd(const TokenEvent& event, Expectation* expected) {
  Choice& choice = expected->choices[static_cast<size_t>(event.choice_index)];
  choice.ended = true;
  expected->ended = std::all_of(expected->choices.begin(), expected->choices.end(),
                                [](const Choice& each) { return each.ended; });
  if (event.request_ended != expected->ended) {
    return absl::InternalError(absl::StrCat("wrong end of request ", event.request));
  }
  OCTAVO_RETURN_IF_ERROR(CheckScores(event, *expected));
  if (expected->request.beam.has_value()) return CheckHypothesis(event, expected);
  stops_ += event.finish == FinishReason::kStop ? 1 : 0;
  aborts_ += event.finish == FinishReason::kAbort ? 1 : 0;
  ExpectedOutput output =
      Evaluate(expected->request, kSimVocabulary, static_cast<uint32_t>(event.choice_index));
  const size_t received = choice.received.size();
  if (event.finish == FinishReason::kAbort) {
    if (!expected->aborted || received > output.tokens.size()) {
      return absl::InternalError(absl::StrCat("bad end of aborted request ", event.request));
    }
    output.tokens.resize(received);
  } else if (event.finish != output.finish) {
    return absl::InternalError(absl::StrCat("wrong finish reason of request ", event.request));
  }
  if (choice.received != output.tokens) {
    return absl::InternalError(absl::StrCat("request ", event.request, " choice ",
                                            event.choice_index, " got ",
                                            absl::StrJoin(choice.received, " "), "; expected ",
                                            absl::StrJoin(output.tokens, " "), " (det.2)"));
  }
  return CheckUsage(event, *expected);
}

absl::Status SchedulerSim::CheckHypothesis(const TokenEvent& event, Expectation* expected) {
  const std::vector<TokenId>& received =
      expected->choices[static_cast<size_t>(event.choice_index)].received;
  const auto wrong = [&](const char* what) {
    return absl::InternalError(absl::StrCat("hypothesis ", event.choice_index, " of request ",
                                            event.request, ": wrong ", what, "; got ",
                                            absl::StrJoin(received, " ")));
  };
  if (event.finish == FinishReason::kAbort) {
    return expected->aborted && received.empty() ? CheckUsage(event, *expected) : wrong("abort");
  }
  if (expected->hypotheses.empty()) {
    expected->hypotheses = EvaluateBeams(expected->request, kSimVocabulary);
  }
  const Hypothesis& output = expected->hypotheses.at(static_cast<size_t>(event.choice_index));
  if (received != output.tokens) return wrong("tokens");
  if (event.score != output.score) return wrong("score");
  if (event.logprob != output.logprobs.back()) return wrong("log-probability");
  if ((event.finish == FinishReason::kStop) != output.stopped) return wrong("finish reason");
  return CheckUsage(event, *expected);
}

absl::Status SchedulerSim::CheckUsage(const TokenEvent& event, const Expectation& expected) const {
  const Request& request = expected.request;
  const size_t received = expected.choices[static_cast<size_t>(event.choice_index)].received.size();
  const bool caches = request.prefix_cache && scenario_.scheduler.prefix_cache;
  if (event.generated_tokens != static_cast<int32_t>(received) ||
      event.prompt_tokens != static_cast<int32_t>(request.prompt.size()) ||
      event.cached_tokens >= event.prompt_tokens ||
      event.cached_tokens % scenario_.scheduler.block_size != 0 ||
      (event.cached_tokens > 0 && (!caches || request.prompt_logprobs >= 0)) ||
      event.preemptions < expected.preemptions) {
    return absl::InternalError(absl::StrCat("wrong usage of request ", event.request));
  }
  return absl::OkStatus();
}

absl::Status SchedulerSim::DrainFacts() {
  for (const PreemptionEvent& event : scheduler_.TakePreemptions()) {
    requests_[event.request].running = false;
    if (event.mode == PreemptionMode::kAuto ||
        (event.swap_bytes > 0) != (event.mode == PreemptionMode::kSwap) || event.tokens_lost < 0 ||
        (event.mode == PreemptionMode::kSwap &&
         (scenario_.scheduler.preemption_mode == PreemptionMode::kRecompute ||
          event.reason == PreemptionReason::kWorkerReset || event.tokens_lost > 0))) {
      return absl::InternalError(absl::StrCat("bad preemption of request ", event.request));
    }
    if (event.reason == PreemptionReason::kWorkerReset) continue;
    if (++requests_[event.request].preemptions > scenario_.scheduler.max_preemptions) {
      return absl::InternalError(
          absl::StrCat("request ", event.request, " was preempted too often (life.3)"));
    }
  }
  return Receive(scheduler_.TakeAbortEvents());
}

absl::Status SchedulerSim::CheckAllEnded() const {
  for (const auto& [id, expected] : requests_) {
    if (!expected.ended) return absl::InternalError(absl::StrCat("request ", id, " is lost"));
  }
  const SchedulerStats stats = scheduler_.stats();
  // The later step in flight, when the end is seen; both, when an abort comes between commits.
  const int64_t most =
      (scenario_.steps_in_flight - 1) * stops_ + scenario_.steps_in_flight * aborts_;
  if (discarded_ > most) {
    return absl::InternalError(absl::StrCat(discarded_, " sampled tokens were discarded; at most ",
                                            most, " came after an end"));
  }
  if (stats.free_blocks + stats.cached_blocks != stats.num_blocks ||
      stats.running + stats.waiting + stats.saved_blocks + stats.used_swap_blocks != 0) {
    return absl::InternalError(absl::StrCat(stats.active_blocks, " blocks leaked (life.1)"));
  }
  return absl::OkStatus();
}

}  // namespace octavo
