#include "tests/fakes/fake_model.h"

#include <algorithm>

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
