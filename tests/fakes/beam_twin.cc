#include "tests/fakes/beam_twin.h"

#include <algorithm>
#include <cmath>

namespace octavo {
namespace {

struct Output {
  std::vector<TokenId> tokens;
  std::vector<float> logprobs;
  double sum = 0;
};

bool Ends(const Output& output, const std::vector<TokenId>& end_tokens) {
  return std::count(end_tokens.begin(), end_tokens.end(), output.tokens.back()) > 0;
}

// In order of beam, then token: a stable sort by sum then breaks ties as it should.
std::vector<Output> Continuations(const std::vector<Output>& beams, const NextLogprobs& next) {
  std::vector<Output> all;
  for (const Output& beam : beams) {
    const std::vector<float> logprobs = next(beam.tokens);
    for (size_t token = 0; token < logprobs.size(); ++token) {
      Output longer = beam;
      longer.tokens.push_back(static_cast<TokenId>(token));
      longer.logprobs.push_back(logprobs[token]);
      longer.sum += double{logprobs[token]};
      all.push_back(longer);
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Output& a, const Output& b) { return a.sum > b.sum; });
  return all;
}

}  // namespace

std::vector<Hypothesis> NaiveBeamSearch(const BeamParams& params, int32_t max_tokens,
                                        const std::vector<TokenId>& end_tokens,
                                        const NextLogprobs& next) {
  const size_t width = static_cast<size_t>(params.width);
  std::vector<Output> beams(1);
  std::vector<Hypothesis> finished;
  for (int32_t length = 1; length <= max_tokens; ++length) {
    const std::vector<Output> all = Continuations(beams, next);
    beams.clear();
    for (size_t rank = 0; rank < all.size(); ++rank) {
      const bool ends = Ends(all[rank], end_tokens);
      if (rank < width && (ends || length == max_tokens)) {
        finished.push_back({.tokens = all[rank].tokens,
                            .logprobs = all[rank].logprobs,
                            .score = all[rank].sum / std::pow(length, params.length_penalty),
                            .stopped = ends});
      }
      if (!ends && beams.size() < width) beams.push_back(all[rank]);
    }
    std::stable_sort(finished.begin(), finished.end(),
                     [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; });
    if (finished.size() > width) finished.resize(width);
    if (beams.empty()) break;
    if (finished.size() < width) continue;
    if (params.early_stopping == EarlyStopping::kTrue) break;
    const bool longest =
        params.early_stopping == EarlyStopping::kNever && params.length_penalty > 0;
    const double best =
        beams[0].sum / std::pow(longest ? max_tokens : length, params.length_penalty);
    if (best <= finished.back().score) break;
  }
  return finished;
}

}  // namespace octavo
