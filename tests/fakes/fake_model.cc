#include "tests/fakes/fake_model.h"

#include <algorithm>
#include <cmath>

#include "tests/fakes/beam_twin.h"

namespace octavo {
namespace {

// The finaliser of SplitMix64 (Steele, Lea, Flood, 2014).
uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

}  // namespace

ChainHash Extend(ChainHash prefix, TokenId token) {
  return Mix(prefix * 0x9E3779B97F4A7C15ULL + static_cast<uint64_t>(token) + 1);
}

TokenId SampleToken(ChainHash prefix, uint64_t seed, uint32_t choice_index, int32_t position,
                    int32_t vocab_size) {
  const uint64_t bits =
      Mix(prefix ^ Mix(seed + choice_index) ^ Mix(static_cast<uint64_t>(position) << 20));
  return static_cast<TokenId>(bits % static_cast<uint64_t>(vocab_size));
}

std::vector<float> LogprobsAfter(ChainHash prefix, int32_t vocab_size) {
  std::vector<float> logprobs;
  double total = 0;
  for (TokenId token = 0; token < vocab_size; ++token) {
    const uint64_t bits = Mix(prefix ^ Mix(static_cast<uint64_t>(token) + 1));
    logprobs.push_back(0.5f * static_cast<float>(bits % 12));
    total += std::exp(double{logprobs.back()});
  }
  for (float& logprob : logprobs) logprob -= static_cast<float>(std::log(total));
  return logprobs;
}

std::vector<TokenLogprob> TopLogprobs(ChainHash prefix, int32_t vocab_size, int32_t count) {
  std::vector<TokenLogprob> all;
  for (const float logprob : LogprobsAfter(prefix, vocab_size)) {
    all.push_back({static_cast<TokenId>(all.size()), logprob});
  }
  std::stable_sort(all.begin(), all.end(), [](const TokenLogprob& a, const TokenLogprob& b) {
    return a.logprob > b.logprob;
  });
  if (all.size() > static_cast<size_t>(count)) all.resize(static_cast<size_t>(count));
  return all;
}

std::vector<Hypothesis> EvaluateBeams(const Request& request, int32_t vocab_size) {
  ChainHash prompt = kEmptyChain;
  for (const TokenId token : request.prompt) prompt = Extend(prompt, token);
  return NaiveBeamSearch(*request.beam, request.max_tokens,
                         request.ignore_eos ? std::vector<TokenId>() : request.eos_ids,
                         [&](const std::vector<TokenId>& output) {
                           ChainHash chain = prompt;
                           for (const TokenId token : output) chain = Extend(chain, token);
                           return LogprobsAfter(chain, vocab_size);
                         });
}

ScoredToken ScoreToken(ChainHash prefix, TokenId token, int32_t num_top, int32_t vocab_size) {
  const auto logprob = [&](TokenId of) {
    return -static_cast<float>(Mix(prefix ^ Mix(static_cast<uint64_t>(of) << 32)) % 4096) / 256;
  };
  ScoredToken scored{token, logprob(token), {}};
  const auto first = static_cast<int32_t>(Mix(prefix) % static_cast<uint64_t>(vocab_size));
  for (int32_t i = 0; i < std::min(num_top, vocab_size); ++i) {
    const TokenId other = (first + i) % vocab_size;
    scored.top.push_back({other, logprob(other)});
  }
  return scored;
}

std::vector<ScoredToken> EvaluateScores(const Request& request, int32_t vocab_size) {
  std::vector<ScoredToken> scores;
  if (request.prompt_logprobs < 0) return scores;
  ChainHash chain = kEmptyChain;
  for (size_t i = 0; i + 1 < request.prompt.size(); ++i) {
    chain = Extend(chain, request.prompt[i]);
    scores.push_back(ScoreToken(chain, request.prompt[i + 1], request.prompt_logprobs, vocab_size));
  }
  return scores;
}

ExpectedOutput Evaluate(const Request& request, int32_t vocab_size, uint32_t choice_index) {
  ChainHash chain = kEmptyChain;
  for (const TokenId token : request.prompt) chain = Extend(chain, token);
  ExpectedOutput output;
  int32_t position = static_cast<int32_t>(request.prompt.size());
  while (static_cast<int32_t>(output.tokens.size()) < request.max_tokens) {
    const TokenId token =
        SampleToken(chain, request.sampling.seed, choice_index, position++, vocab_size);
    output.tokens.push_back(token);
    chain = Extend(chain, token);
    if (!request.ignore_eos &&
        std::find(request.eos_ids.begin(), request.eos_ids.end(), token) != request.eos_ids.end()) {
      output.finish = FinishReason::kStop;
      return output;
    }
  }
  return output;
}

}  // namespace octavo
