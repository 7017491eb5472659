#include "worker/cuda/row_sampling.h"

#include "worker/backend/sample_check.h"
#include "worker/backend/sampling_math.h"

namespace octavo::cuda {

SamplingRowArgs RowArgsOf(const SampleRow& row) {
  const SamplingParams& sampling = row.sampling;
  SamplingRowArgs args;
  args.random = SamplingRandom(sampling.seed, row.choice_index, row.position);
  args.min_p_reach = MinPReach(sampling.temperature, sampling.min_p);
  args.scale = sampling.greedy() ? 0.0f : WeightScale(sampling.temperature);
  args.top_p = sampling.top_p;
  args.top_k = sampling.top_k;
  args.target = row.target;
  args.num_logprobs = sampling.num_logprobs;
  return args;
}

absl::StatusOr<SampleOutput> OutputOf(const SampledRow& row, const TopLogit* top,
                                      const SamplingRowArgs& args) {
  if (row.bad != 0) return BadLogits(row.max);
  SampleOutput output;
  output.token = row.token;
  if (args.num_logprobs < 0) return output;
  const double log_total = LogOfTotal(row.total);
  output.logprob = LogProbability(row.logit, row.max, log_total);
  for (int32_t i = 0; i < row.num_top; ++i)
    output.top.push_back({top[i].token, LogProbability(top[i].logit, row.max, log_total)});
  return output;
}

}  // namespace octavo::cuda
