// What the engine can do at a given concurrency, and the run times that follow from it.
#ifndef OCTAVO_TOOLS_PAGING_RATES_H_
#define OCTAVO_TOOLS_PAGING_RATES_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/paging/local_engine.h"

namespace octavo::paging {

struct Rates {
  double prefill_tokens_per_s = 0;
  std::map<int32_t, double> decode_tokens_per_s;  // by sequences decoding together

  // At a concurrency that is no whole number, between the two measured ones beside it. REQUIRES:
  // both are there.
  double DecodeAt(double concurrency) const;
};

// The shape of a workload, as far as rates depend on it.
struct WorkloadShape {
  int64_t requests = 0;
  int64_t prompt_tokens = 0;
  int64_t output_tokens = 0;
  // Tokens that an output token sees before it, mean over all output tokens.
  double mean_context = 0;
};
WorkloadShape ShapeOf(const std::vector<Request>& requests);

// Seconds of a run whose prompts are computed one after another at the prefill rate, and whose
// further tokens come at the decode rate of the mean concurrency. It knows nothing of ramps, tails
// and tokens computed twice, so a run takes longer; and nothing of prefills that share a step with
// decodes, so it may take less.
double PredictedSeconds(const Rates& rates, const WorkloadShape& shape, double mean_running);

// Adds what DecodeAt needs for each of `concurrencies` and was not measured yet; and the prefill
// rate, of prompts of the mean length, each alone. Both are medians of several.
// `engine` needs a pool that holds them all.
absl::Status MeasureRates(LocalEngine& engine, const WorkloadShape& shape,
                          const std::vector<double>& concurrencies, int32_t vocab_size,
                          const Interrupted& interrupted, Rates* rates);

// Tokens that the largest of those measurements holds.
int64_t TokensToMeasure(const WorkloadShape& shape, const std::vector<double>& concurrencies);

}  // namespace octavo::paging

#endif  // OCTAVO_TOOLS_PAGING_RATES_H_
