// Beam search as a textbook has it: every continuation over the whole vocabulary, written out and
// sorted at each step. Slow and obvious; the twin that the real one must equal.
#ifndef OCTAVO_TESTS_FAKES_BEAM_TWIN_H_
#define OCTAVO_TESTS_FAKES_BEAM_TWIN_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "common/ids.h"
#include "scheduler/core/beam.h"

namespace octavo {

// The log-probability of every token of the vocabulary after an output.
using NextLogprobs = std::function<std::vector<float>(const std::vector<TokenId>& output)>;

// Best first.
std::vector<Hypothesis> NaiveBeamSearch(const BeamParams& params, int32_t max_tokens,
                                        const std::vector<TokenId>& end_tokens,
                                        const NextLogprobs& next);

}  // namespace octavo

#endif  // OCTAVO_TESTS_FAKES_BEAM_TWIN_H_
