// A Scheduler whose worker answers as the test says.
#ifndef OCTAVO_TESTS_SCHEDULER_CORE_SCHEDULER_HARNESS_H_
#define OCTAVO_TESTS_SCHEDULER_CORE_SCHEDULER_HARNESS_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/check.h"
#include "scheduler/core/scheduler.h"

namespace octavo {

inline constexpr TokenId kTestEos = 99;

inline SchedulerConfig SmallConfig() {
  SchedulerConfig config;
  config.block_size = 4;
  config.num_blocks = 64;
  config.vocab_size = 100;
  config.max_model_len = 64;
  config.max_num_seqs = 8;
  config.max_num_batched_tokens = 32;
  config.kv_watermark = 0;
  config.prefix_cache = false;  // most tests count blocks and tokens; those of the cache turn it on
  return config;
}

inline Request MakeRequest(RequestId id, int32_t prompt_tokens, int32_t max_tokens) {
  Request request;
  request.id = id;
  for (int32_t i = 0; i < prompt_tokens; ++i) request.prompt.push_back(i % 90);
  request.max_tokens = max_tokens;
  request.eos_ids = {kTestEos};
  return request;
}

// Sequences get ids from 1 in the order of Add, so with one request per Add sequence n is the n-th.
class Harness {
 public:
  explicit Harness(const SchedulerConfig& config) : scheduler(config) {}

  void Add(Request request) {
    const absl::Status added = scheduler.Add(std::move(request));
    OCTAVO_CHECK(added.ok(), added.message());
    scheduler.CheckInvariants();
  }

  std::optional<StepPlan> Schedule() {
    std::optional<StepPlan> plan = scheduler.Schedule(now);
    scheduler.CheckInvariants();
    if (plan.has_value()) in_flight.push_back(*plan);
    return plan;
  }

  // Answers the oldest plan; every sample is `token`, but for the sequences in `tokens`.
  std::vector<TokenEvent> Commit(TokenId token = 1,
                                 const std::map<SequenceId, TokenId>& tokens = {}) {
    OCTAVO_CHECK(!in_flight.empty());
    std::vector<TokenEvent> events = scheduler.Commit(Answer(in_flight.front(), token, tokens));
    in_flight.pop_front();
    scheduler.CheckInvariants();
    return events;
  }

  // Schedule, then Commit.
  StepPlan Step(TokenId token = 1) {
    const std::optional<StepPlan> plan = Schedule();
    OCTAVO_CHECK(plan.has_value(), "nothing to run");
    Commit(token);
    return *plan;
  }

  static StepResult Answer(const StepPlan& plan, TokenId token = 1,
                           const std::map<SequenceId, TokenId>& tokens = {}) {
    StepResult result{.epoch = plan.epoch, .step = plan.step};
    for (const SeqSlice& slice : plan.slices) {
      if (slice.score.has_value()) {
        SliceScores& scores = result.scores.emplace_back();
        scores.sequence = slice.sequence;
        for (const TokenId target : slice.score->targets)
          scores.tokens.push_back({target, -static_cast<float>(target), {}});
      }
      if (!slice.sample) continue;
      const auto add = [&](SequenceId sequence) {
        const auto own = tokens.find(sequence);
        result.samples.push_back(
            {.sequence = sequence, .token = own == tokens.end() ? token : own->second});
      };
      add(slice.sequence);
      for (const Fork& fork : slice.forks) add(fork.child);
    }
    return result;
  }

  static std::vector<SequenceId> Sequences(const StepPlan& plan) {
    std::vector<SequenceId> sequences;
    for (const SeqSlice& slice : plan.slices) sequences.push_back(slice.sequence);
    return sequences;
  }

  Scheduler scheduler;
  absl::Time now = absl::UnixEpoch();
  std::deque<StepPlan> in_flight;
};

}  // namespace octavo

#endif  // OCTAVO_TESTS_SCHEDULER_CORE_SCHEDULER_HARNESS_H_
