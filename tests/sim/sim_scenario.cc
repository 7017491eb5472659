#include "tests/sim/sim_scenario.h"

#include <initializer_list>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "scheduler/core/admission.h"

namespace octavo {
namespace {

template <typename T>
T Pick(std::mt19937_64& random, std::initializer_list<T> values) {
  return *(values.begin() + Uniform(random, 0, static_cast<int64_t>(values.size()) - 1));
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

// Many long answers on a pool of two or three of them: requests take turns at losing their blocks.
void Press(std::mt19937_64& random, SimScenario* scenario) {
  SchedulerConfig& config = scenario->scheduler;
  scenario->requests = static_cast<int32_t>(Uniform(random, 20, 60));
  scenario->max_output = 60;
  scenario->arrival_permille = 1000;
  scenario->max_n = Pick(random, {1, 1, 2});
  config.max_model_len = scenario->max_prompt + scenario->max_output;
  config.group_windows = {0};
  config.num_blocks = MostBlocks(config, 1, config.max_model_len, 1) * Pick(random, {2, 3});
  config.max_num_seqs = 64;
  config.max_num_batched_tokens = Pick(random, {32, 128, 512});
  config.max_preemptions = Pick(random, {3, 16});
}

}  // namespace

int64_t Uniform(std::mt19937_64& random, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
}

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
  config.vocab_size = kSimVocabulary;
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
  scenario.repeat_permille = Pick(random, {0, 0, 20});
  scenario.max_n = Pick(random, {1, 1, 2, 4, 8});
  scenario.beam_permille = Pick(random, {0, 100, 400});
  scenario.max_beam_width = Pick(random, {1, 2, 3, 5, 8});
  if (config.group_windows == std::vector<int32_t>{0} && Uniform(random, 0, 3) == 0) {
    config.kv_allocation =
        Pick(random, {KvAllocation::kContiguousMax, KvAllocation::kContiguousPow2,
                      KvAllocation::kContiguousOracle, KvAllocation::kContiguousOracle});
    config.prefix_cache = false;
    scenario.max_n = 1;
    scenario.beam_permille = 0;
    // Free blocks lie apart where several requests of different lengths come and go.
    config.num_blocks = one_request * Pick(random, {1, 2, 3, 5}) + Uniform(random, 0, 3);
    config.max_num_seqs = Pick(random, {4, 16, 64});
    scenario.arrival_permille = 1000;
  }
  config.preemption_mode =
      Pick(random, {PreemptionMode::kRecompute, PreemptionMode::kSwap, PreemptionMode::kAuto});
  config.preemption_granularity =
      Pick(random, {PreemptionGranularity::kBlock, PreemptionGranularity::kBlock,
                    PreemptionGranularity::kRequest});
  config.preemption_resume_share = Pick(random, {0.0, 0.25, 1.0});
  if (config.kv_allocation == KvAllocation::kPaged && Uniform(random, 0, 3) == 0) {
    Press(random, &scenario);
  }
  // None, less than one request's, and as much as anybody wants.
  config.num_swap_blocks = config.num_blocks * Pick(random, {0, 1, 1, 40}) / Pick(random, {1, 3});
  config.block_bytes = 1000;
  scenario.scored_permille = Pick(random, {0, 0, 100, 500});
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
      " flush_permille=", flush_permille, " max_n=", max_n, " beam_permille=", beam_permille,
      " max_beam_width=", max_beam_width, " kv_allocation=", Name(scheduler.kv_allocation),
      " preemption_mode=", static_cast<int>(scheduler.preemption_mode),
      " granularity=", static_cast<int>(scheduler.preemption_granularity),
      " resume_share=", scheduler.preemption_resume_share,
      " num_swap_blocks=", scheduler.num_swap_blocks, " scored_permille=", scored_permille);
}

}  // namespace octavo
