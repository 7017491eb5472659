// A language model that is a hash: what it says depends on every token before, and on nothing else.
#ifndef OCTAVO_TESTS_FAKES_FAKE_MODEL_H_
#define OCTAVO_TESTS_FAKES_FAKE_MODEL_H_

#include <cstdint>
#include <vector>

#include "common/ids.h"
#include "common/step.h"
#include "scheduler/core/beam.h"
#include "scheduler/core/request.h"

namespace octavo {

// Stands for the keys and values of one position: they depend on the whole prefix.
using ChainHash = uint64_t;
inline constexpr ChainHash kEmptyChain = 0x6f637461766fULL;

// Of a prefix one token longer.
ChainHash Extend(ChainHash prefix, TokenId token);

// The token at `position` after a prefix with this hash (det.2).
TokenId SampleToken(ChainHash prefix, uint64_t seed, uint32_t choice_index, int32_t position,
                    int32_t vocab_size);

// The log-probability of every token after a prefix with this hash. Coarse, so that sums often tie.
std::vector<float> LogprobsAfter(ChainHash prefix, int32_t vocab_size);
// The `count` most likely ones, lower ids first on ties.
std::vector<TokenLogprob> TopLogprobs(ChainHash prefix, int32_t vocab_size, int32_t count);

// The log-probability of `token` after a prefix with this hash, and the `num_top` most likely
// tokens there: k, k + 1, ... for some k.
ScoredToken ScoreToken(ChainHash prefix, TokenId token, int32_t num_top, int32_t vocab_size);

// What a choice of a request must generate, whatever the schedule: the model applied token by
// token.
struct ExpectedOutput {
  std::vector<TokenId> tokens;
  FinishReason finish = FinishReason::kLength;
};
// What its prompt scores, from the second token on, when it asks for that.
std::vector<ScoredToken> EvaluateScores(const Request& request, int32_t vocab_size);
ExpectedOutput Evaluate(const Request& request, int32_t vocab_size, uint32_t choice_index = 0);
// What a beam search must find, best first; by its naive twin.
std::vector<Hypothesis> EvaluateBeams(const Request& request, int32_t vocab_size);

}  // namespace octavo

#endif  // OCTAVO_TESTS_FAKES_FAKE_MODEL_H_
