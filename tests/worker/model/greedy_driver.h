// A scheduler of the simplest kind: every prompt runs from the start, chunk by chunk, and then
// token by token, until all have their tokens.
#ifndef OCTAVO_TESTS_WORKER_MODEL_GREEDY_DRIVER_H_
#define OCTAVO_TESTS_WORKER_MODEL_GREEDY_DRIVER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "common/dtype.h"
#include "common/ids.h"
#include "common/step.h"
#include "tests/worker/model/loaded_model.h"

namespace octavo {

struct GreedyPrompt {
  std::vector<TokenId> tokens;
  int32_t max_new_tokens = 1;
};

struct GreedyOptions {
  int32_t block_size = 16;
  int32_t chunk = 0;    // prompt tokens of a sequence per step; 0: all
  bool batched = true;  // all prompts in one batch; otherwise one after the other
  DType kv_dtype = DType::kF32;
  int32_t num_logprobs = 20;
};

// Of each prompt, what was sampled at each step. Blocks of different prompts alternate in the pool.
std::vector<std::vector<SampledToken>> RunGreedy(const LoadedModel& loaded,
                                                 const std::vector<GreedyPrompt>& prompts,
                                                 const GreedyOptions& options);
// The same on a group of ranks (LoadRanksForTest), one thread each; what rank 0 answered.
std::vector<std::vector<SampledToken>> RunGreedy(std::span<const LoadedModel> ranks,
                                                 const std::vector<GreedyPrompt>& prompts,
                                                 const GreedyOptions& options);

}  // namespace octavo

#endif  // OCTAVO_TESTS_WORKER_MODEL_GREEDY_DRIVER_H_
