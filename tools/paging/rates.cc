#include "tools/paging/rates.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status_macros.h"
#include "tools/simulate/random_stream.h"

namespace octavo::paging {
namespace {

constexpr int kPrefills = 9;
constexpr int kDecodes = 3;
constexpr int32_t kDecodedTokens = 96;  // of each sequence, after the first

int32_t PromptOfDecodes(const WorkloadShape& shape) {
  return std::max(1, static_cast<int32_t>(shape.mean_context) - kDecodedTokens / 2);
}

std::vector<Request> Alike(int32_t count, int32_t prompt_tokens, int32_t max_tokens,
                           int32_t vocab_size, uint64_t seed) {
  simulate::RandomStream random(seed);
  std::vector<Request> requests(static_cast<size_t>(count));
  for (Request& request : requests) {
    for (int32_t i = 0; i < prompt_tokens; ++i) {
      request.prompt.push_back(
          static_cast<TokenId>(random.Bits() % static_cast<uint64_t>(vocab_size)));
    }
    request.max_tokens = max_tokens;
    request.ignore_eos = true;
    request.sampling.temperature = 0;
    request.prefix_cache = false;
  }
  return requests;
}

// What the same prompts take longer with more than one token each: the median of several.
absl::StatusOr<double> MeasureDecode(LocalEngine& engine, const WorkloadShape& shape,
                                     int32_t sequences, int32_t vocab_size,
                                     const Interrupted& interrupted) {
  const auto run = [&](int32_t max_tokens) {
    return engine.Run(Alike(sequences, PromptOfDecodes(shape), max_tokens, vocab_size,
                            static_cast<uint64_t>(sequences)),
                      interrupted);
  };
  std::vector<double> seconds;
  for (int i = 0; i < kDecodes; ++i) {
    OCTAVO_ASSIGN_OR_RETURN(const BatchResult prefills, run(1));
    OCTAVO_ASSIGN_OR_RETURN(const BatchResult all, run(1 + kDecodedTokens));
    seconds.push_back(all.seconds - prefills.seconds);
  }
  std::sort(seconds.begin(), seconds.end());
  const double median = seconds[kDecodes / 2];
  if (median <= 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "decoding ", kDecodedTokens, " tokens of ", sequences, " sequences took ", median,
        " s longer than their prefills; the machine is too busy to measure on"));
  }
  return static_cast<double>(sequences) * kDecodedTokens / median;
}

}  // namespace

double Rates::DecodeAt(double concurrency) const {
  const int32_t below = static_cast<int32_t>(std::floor(concurrency));
  const auto low = decode_tokens_per_s.find(std::max(1, below));
  const auto high = decode_tokens_per_s.find(static_cast<int32_t>(std::ceil(concurrency)));
  OCTAVO_CHECK(low != decode_tokens_per_s.end() && high != decode_tokens_per_s.end(),
               "concurrency=", concurrency);
  const double share = concurrency - std::floor(concurrency);
  return low->second + share * (high->second - low->second);
}

WorkloadShape ShapeOf(const std::vector<Request>& requests) {
  WorkloadShape shape;
  double context = 0;
  for (const Request& request : requests) {
    const double prompt = static_cast<double>(request.prompt.size());
    ++shape.requests;
    shape.prompt_tokens += static_cast<int64_t>(request.prompt.size());
    shape.output_tokens += request.max_tokens;
    context += request.max_tokens * (prompt + (request.max_tokens - 1) / 2.0);
  }
  if (shape.output_tokens > 0) {
    shape.mean_context = context / static_cast<double>(shape.output_tokens);
  }
  return shape;
}

double PredictedSeconds(const Rates& rates, const WorkloadShape& shape, double mean_running) {
  const double decoded = static_cast<double>(shape.output_tokens - shape.requests);
  return static_cast<double>(shape.prompt_tokens) / rates.prefill_tokens_per_s +
         decoded / rates.DecodeAt(mean_running);
}

int64_t TokensToMeasure(const WorkloadShape& shape, const std::vector<double>& concurrencies) {
  const double most = *std::max_element(concurrencies.begin(), concurrencies.end());
  return static_cast<int64_t>(std::ceil(most)) * (PromptOfDecodes(shape) + 1 + kDecodedTokens);
}

absl::Status MeasureRates(LocalEngine& engine, const WorkloadShape& shape,
                          const std::vector<double>& concurrencies, int32_t vocab_size,
                          const Interrupted& interrupted, Rates* rates) {
  const int32_t prompt = static_cast<int32_t>(shape.prompt_tokens / shape.requests);
  std::vector<double> prefills;
  for (int i = 0; i < kPrefills; ++i) {
    OCTAVO_ASSIGN_OR_RETURN(
        const BatchResult alone,
        engine.Run(Alike(1, std::max(1, prompt), 1, vocab_size, static_cast<uint64_t>(i)),
                   interrupted));
    prefills.push_back(static_cast<double>(alone.prompt_tokens) / alone.seconds);
  }
  std::nth_element(prefills.begin(), prefills.begin() + kPrefills / 2, prefills.end());
  rates->prefill_tokens_per_s = prefills[kPrefills / 2];
  for (const double concurrency : concurrencies) {
    for (const double whole : {std::floor(concurrency), std::ceil(concurrency)}) {
      const int32_t sequences = std::max(1, static_cast<int32_t>(whole));
      if (rates->decode_tokens_per_s.contains(sequences)) continue;
      OCTAVO_ASSIGN_OR_RETURN(rates->decode_tokens_per_s[sequences],
                              MeasureDecode(engine, shape, sequences, vocab_size, interrupted));
    }
  }
  return absl::OkStatus();
}

}  // namespace octavo::paging
