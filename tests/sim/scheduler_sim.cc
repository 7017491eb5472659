#include "tests/sim/scheduler_sim.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/check.h"
#include "common/status_macros.h"
#include "scheduler/core/admission.h"

namespace octavo {
namespace {

constexpr int32_t kVocabulary = 61;
constexpr TokenId kEos = 7;  // about one token in 61, so some outputs stop early
constexpr int32_t kMaxEvents = 200000;

int64_t Uniform(std::mt19937_64& random, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
}

template <typename T>
T Pick(std::mt19937_64& random, std::initializer_list<T> values) {
  return *(values.begin() + Uniform(random, 0, static_cast<int64_t>(values.size()) - 1));
}

ShadowWorkerConfig WorkerConfigOf(const SchedulerConfig& config) {
  return {.num_blocks = config.num_blocks,
          .block_size = config.block_size,
          .vocab_size = config.vocab_size,
          .max_model_len = config.max_model_len,
          .max_num_seqs = config.max_num_seqs,
          .max_num_batched_tokens = config.max_num_batched_tokens,
          .group_windows = config.group_windows};
}

MirrorLimits MirrorLimitsOf(const SchedulerConfig& config) {
  return {.num_blocks = config.num_blocks,
          .block_size = config.block_size,
          .max_model_len = config.max_model_len,
          .max_num_seqs = config.max_num_seqs,
          .max_num_batched_tokens = config.max_num_batched_tokens,
          .vocab_size = config.vocab_size,
          .group_windows = config.group_windows};
}

// Half of all models see everything in every layer. The widest window is at least 2: what a table
// begins with is recognised by the last token that it sees.
std::vector<int32_t> DrawWindows(std::mt19937_64& random, int32_t max_model_len) {
  if (Uniform(random, 0, 1) == 0) return {0};
  std::vector<int32_t> windows(static_cast<size_t>(Uniform(random, 0, 2)), 0);
  const int64_t most = Pick(random, {3, 12, 2 * max_model_len});
  for (int64_t left = Uniform(random, windows.empty() ? 1 : 0, 2); left > 0; --left) {
    const int64_t wider = windows.empty() || windows.back() == 0 ? most : windows.back();
    windows.push_back(static_cast<int32_t>(Uniform(random, windows.empty() ? 2 : 1, wider)));
  }
  return windows;
}

}  // namespace

SimScenario SimScenario::FromSeed(uint64_t seed) {
  std::mt19937_64 random(seed ^ 0x5ce7a210ULL);
  SimScenario scenario;
  SchedulerConfig& config = scenario.scheduler;
  scenario.requests = static_cast<int32_t>(Uniform(random, 1, 60));
  scenario.max_prompt = Pick(random, {1, 8, 40, 90});
  scenario.max_output = Pick(random, {1, 6, 30, 60, 60});
  scenario.priorities = Pick(random, {1, 1, 2, 4});
  scenario.steps_in_flight = Pick(random, {1, 2, 2});
  scenario.abort_permille = Pick(random, {0, 0, 5, 40});
  scenario.reset_permille = Pick(random, {0, 0, 2, 15});
  scenario.arrival_permille = Pick(random, {50, 300, 1000, 1000});
  config.block_size = Pick(random, {1, 2, 4, 8, 16});
  config.vocab_size = kVocabulary;
  config.max_model_len = scenario.max_prompt + scenario.max_output;
  config.group_windows = DrawWindows(random, config.max_model_len);
  const int64_t one_request = MostBlocks(config, 1, config.max_model_len, 1);
  // From a pool in which one request just fits to one without pressure.
  config.num_blocks = one_request * Pick(random, {1, 1, 2, 3, 30}) + Uniform(random, 0, 3);
  config.max_num_seqs = Pick(random, {1, 4, 16, 64, 64});
  config.max_num_batched_tokens = Pick(random, {1, 5, 32, 128, 512});
  config.max_prefill_chunk = Pick(random, {0, 1, 7, 16});
  config.max_queued_requests = 4096;
  config.kv_watermark = Pick(random, {0.0, 0.0, 0.01, 0.2});
  config.max_preemptions = Pick(random, {0, 1, 3, 16, 16});
  config.prefix_cache = Pick(random, {true, true, true, false});
  config.prefix_cache_key = "key";
  // Now and then so few bits that most digests collide.
  config.prefix_digest_bits = Pick(random, {128, 128, 128, 5, 1});
  scenario.shared_prompts = Pick(random, {1, 1, 2, 5});
  scenario.shared_permille = Pick(random, {0, 300, 900, 900});
  scenario.next_turn_permille = Pick(random, {0, 200, 500});
  scenario.salts = Pick(random, {1, 1, 2});
  scenario.uncached_permille = Pick(random, {0, 0, 100});
  scenario.flush_permille = Pick(random, {0, 0, 5});
  scenario.max_n = Pick(random, {1, 1, 2, 4, 8});
  return scenario;
}

std::string SimScenario::ToString() const {
  return absl::StrCat(
      "requests=", requests, " max_prompt=", max_prompt, " max_output=", max_output,
      " priorities=", priorities, " steps_in_flight=", steps_in_flight,
      " abort_permille=", abort_permille, " reset_permille=", reset_permille,
      " block_size=", scheduler.block_size, " num_blocks=", scheduler.num_blocks,
      " windows=", absl::StrJoin(scheduler.group_windows, ","),
      " max_num_seqs=", scheduler.max_num_seqs,
      " max_num_batched_tokens=", scheduler.max_num_batched_tokens,
      " max_prefill_chunk=", scheduler.max_prefill_chunk,
      " max_preemptions=", scheduler.max_preemptions, " prefix_cache=", scheduler.prefix_cache,
      " digest_bits=", scheduler.prefix_digest_bits, " shared_permille=", shared_permille,
      " next_turn_permille=", next_turn_permille, " salts=", salts,
      " flush_permille=", flush_permille, " max_n=", max_n);
}

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
      prompt.push_back(static_cast<TokenId>(Draw(0, kVocabulary - 1)));
    }
  }
}

int64_t SchedulerSim::Draw(int64_t low, int64_t high) { return Uniform(random_, low, high); }

absl::Status SchedulerSim::Run(SimOutcome* outcome) {
  while (requests_.size() < static_cast<size_t>(scenario_.requests) || !scheduler_.idle()) {
    if (++outcome->events > kMaxEvents) return absl::DeadlineExceededError("requests never end");
    OCTAVO_RETURN_IF_ERROR(OneEvent(outcome));
    scheduler_.CheckInvariants();
  }
  OCTAVO_RETURN_IF_ERROR(DrainFacts());
  outcome->stats = scheduler_.stats();
  return CheckAllEnded();
}

absl::Status SchedulerSim::OneEvent(SimOutcome* outcome) {
  now_ += absl::Milliseconds(Draw(0, 3));
  if (requests_.size() < static_cast<size_t>(scenario_.requests) &&
      Chance(scenario_.arrival_permille)) {
    return AddOne();
  }
  if (Chance(scenario_.abort_permille)) return AbortOne();
  if (Chance(scenario_.flush_permille)) {
    scheduler_.FlushPrefixCache();
    ++flushes_;
    return absl::OkStatus();
  }
  if (Chance(scenario_.reset_permille)) {
    const Epoch before = scheduler_.epoch();
    scheduler_.ResetWorkers();
    if (scheduler_.epoch() <= before) return absl::InternalError("the epoch did not advance");
    worker_.Reset(scheduler_.epoch());
    mirror_ = std::make_unique<TableMirror>(MirrorLimitsOf(scenario_.scheduler));
    unmirrored_.clear();
    return DrainFacts();
  }
  const bool full = worker_.submitted() >= static_cast<size_t>(scenario_.steps_in_flight);
  if (worker_.submitted() > 0 && (full || Chance(300))) return CommitOne();
  return ScheduleOne(outcome);
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
    prompt.push_back(static_cast<TokenId>(Draw(0, kVocabulary - 1)));
  }
  if (prompt.size() > static_cast<size_t>(scenario_.max_prompt)) {
    prompt.resize(static_cast<size_t>(scenario_.max_prompt));
  }
  return prompt;
}

absl::Status SchedulerSim::AddOne() {
  Request request;
  request.id = next_id_;
  request.prompt = DrawPrompt();
  request.max_tokens = static_cast<int32_t>(Draw(1, scenario_.max_output));
  request.sampling.seed = random_();
  request.ignore_eos = Chance(300);
  request.eos_ids = {kEos};
  request.priority = static_cast<int32_t>(Draw(0, scenario_.priorities - 1));
  request.arrival = now_;
  request.prefix_cache = !Chance(scenario_.uncached_permille);
  request.cache_salt = std::string(static_cast<size_t>(Draw(0, scenario_.salts - 1)), 's');
  request.n = static_cast<int32_t>(Draw(1, scenario_.max_n));
  while (request.n > 1 && !CheckRequest(scenario_.scheduler, request).ok()) --request.n;
  Expectation& expected = requests_[next_id_++];
  expected.request = request;
  expected.choices.resize(static_cast<size_t>(request.n));
  by_sequence_.resize(by_sequence_.size() + static_cast<size_t>(request.n), request.id);
  return scheduler_.Add(std::move(request));
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

absl::Status SchedulerSim::AbortOne() {
  // Ids of ended requests and of none at all are aborted too.
  const RequestId id = static_cast<RequestId>(Draw(1, static_cast<int64_t>(next_id_)));
  const auto found = requests_.find(id);
  if (found != requests_.end() && !found->second.ended) found->second.aborted = true;
  scheduler_.Abort(id);
  return DrainFacts();
}

absl::Status SchedulerSim::ScheduleOne(SimOutcome* outcome) {
  std::optional<StepPlan> plan = scheduler_.Schedule(now_);
  OCTAVO_RETURN_IF_ERROR(DrainFacts());
  if (!plan.has_value()) {
    // An engine may ask again before the result is there, for example when a request arrives.
    if (worker_.submitted() > 0) return Chance(500) ? CommitOne() : absl::OkStatus();
    if (scheduler_.idle()) return absl::OkStatus();
    return absl::InternalError("nothing in flight and nothing scheduled (life.2)");
  }
  NoteStarts(*plan);
  const absl::Status valid = worker_.Submit(*plan);
  unmirrored_.push_back(*plan);
  outcome->plans.push_back(*std::move(plan));
  OCTAVO_RETURN_IF_ERROR(valid);
  return CheckSlots();
}

absl::Status SchedulerSim::CheckSlots() const {
  const SchedulerStats stats = scheduler_.stats();
  const int64_t held = worker_.held_slots();
  const int64_t filled = worker_.filled_slots();
  // A table that no slice has named yet, or a block put aside, is not known to the worker.
  const bool all_known = scenario_.max_n == 1 && !Windowed(scenario_.scheduler) &&
                         static_cast<int64_t>(worker_.sequences()) == stats.running;
  if (all_known ? stats.held_slots == held && stats.filled_slots == filled
                : stats.held_slots >= held && stats.filled_slots >= filled) {
    return absl::OkStatus();
  }
  return absl::InternalError(absl::StrCat("the worker holds ", held, " slots, ", filled,
                                          " with a token; stats say ", stats.held_slots, " and ",
                                          stats.filled_slots));
}

absl::Status SchedulerSim::CommitOne() {
  absl::StatusOr<StepResult> result = worker_.Run();
  OCTAVO_RETURN_IF_ERROR(result.status());
  OCTAVO_RETURN_IF_ERROR(Mirror(unmirrored_.front(), *result));
  unmirrored_.pop_front();
  OCTAVO_RETURN_IF_ERROR(scheduler_.CheckResult(*result));
  const std::vector<TokenEvent> events = scheduler_.Commit(*result);
  discarded_ += static_cast<int64_t>(result->samples.size() - events.size());
  return Receive(events);
}

absl::Status SchedulerSim::Mirror(const StepPlan& plan, const StepResult& result) {
  OCTAVO_RETURN_IF_ERROR(mirror_->Apply(plan));
  auto sample = result.samples.begin();
  for (const SeqSlice& slice : plan.slices) {
    if (!slice.sample) continue;
    const int32_t position = slice.context_length + slice.num_tokens;
    mirror_->RecordSample(slice.sequence, (sample++)->token, position);
    for (const Fork& fork : slice.forks) {
      mirror_->RecordSample(fork.child, (sample++)->token, position);
    }
  }
  return absl::OkStatus();
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
    Choice& choice = expected.choices.at(static_cast<size_t>(event.choice_index));
    if (choice.ended) return absl::InternalError("event after the end of a choice");
    if (event.token.has_value()) choice.received.push_back(*event.token);
    if (event.finish.has_value()) OCTAVO_RETURN_IF_ERROR(CheckEnd(event, &expected));
  }
  return absl::OkStatus();
}

absl::Status SchedulerSim::CheckEnd(const TokenEvent& event, Expectation* expected) {
  Choice& choice = expected->choices[static_cast<size_t>(event.choice_index)];
  choice.ended = true;
  expected->ended = std::all_of(expected->choices.begin(), expected->choices.end(),
                                [](const Choice& each) { return each.ended; });
  if (event.request_ended != expected->ended) {
    return absl::InternalError(absl::StrCat("wrong end of request ", event.request));
  }
  stops_ += event.finish == FinishReason::kStop ? 1 : 0;
  aborts_ += event.finish == FinishReason::kAbort ? 1 : 0;
  ExpectedOutput output =
      Evaluate(expected->request, kVocabulary, static_cast<uint32_t>(event.choice_index));
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

absl::Status SchedulerSim::CheckUsage(const TokenEvent& event, const Expectation& expected) const {
  const Request& request = expected.request;
  const size_t received = expected.choices[static_cast<size_t>(event.choice_index)].received.size();
  const bool caches = request.prefix_cache && scenario_.scheduler.prefix_cache;
  if (event.generated_tokens != static_cast<int32_t>(received) ||
      event.prompt_tokens != static_cast<int32_t>(request.prompt.size()) ||
      event.cached_tokens >= event.prompt_tokens ||
      event.cached_tokens % scenario_.scheduler.block_size != 0 ||
      (event.cached_tokens > 0 && !caches) || event.preemptions < expected.preemptions) {
    return absl::InternalError(absl::StrCat("wrong usage of request ", event.request));
  }
  return absl::OkStatus();
}

absl::Status SchedulerSim::DrainFacts() {
  for (const PreemptionEvent& event : scheduler_.TakePreemptions()) {
    requests_[event.request].running = false;
    if (event.by_reset) continue;
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
      stats.running + stats.waiting + stats.saved_blocks != 0) {
    return absl::InternalError(absl::StrCat(stats.active_blocks, " blocks leaked (life.1)"));
  }
  return absl::OkStatus();
}

}  // namespace octavo
