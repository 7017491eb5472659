#include "worker/cpu/sample.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/backend/sample_check.h"
#include "worker/backend/sampling_math.h"

namespace octavo {
namespace {

constexpr size_t kBuckets = 512;
constexpr double kWeightUnit = 0x1p-44;

uint64_t TotalWeight(std::span<const Candidate> candidates) {
  uint64_t total = 0;
  for (const Candidate& candidate : candidates) total += FixedWeight(candidate.weight);
  return total;
}

// The first token whose running total exceeds `target`. REQUIRES: target < the total weight.
TokenId Pick(std::span<const Candidate> candidates, uint64_t target) {
  uint64_t running = 0;
  for (const Candidate& candidate : candidates) {
    running += FixedWeight(candidate.weight);
    if (running > target) return candidate.token;
  }
  return candidates.back().token;
}

}  // namespace

absl::StatusOr<SampleOutput> RowSampler::Sample(std::span<const float> logits,
                                                const SampleRow& row) {
  if (!maxima_.Scan(logits)) return BadLogits(maxima_.max);
  SampleOutput output;
  if (row.target >= 0)
    output.token = row.target;
  else
    output.token = row.sampling.greedy() ? maxima_.ArgMax(logits) : Draw(logits, row);
  if (row.sampling.num_logprobs >= 0) FillLogprobs(logits, row.sampling.num_logprobs, &output);
  return output;
}

std::span<const Candidate> RowSampler::Survivors(std::span<const float> logits,
                                                 const SamplingParams& sampling) {
  maxima_.Scan(logits);
  Filter(logits, sampling, LogitWeights(maxima_.max, sampling.temperature));
  return candidates_;
}

void RowSampler::Filter(std::span<const float> logits, const SamplingParams& sampling,
                        const LogitWeights& weights) {
  const auto vocab = static_cast<int64_t>(logits.size());
  const bool has_top_k = sampling.top_k > 0 && sampling.top_k < vocab;
  const bool has_top_p = sampling.top_p < 1.0f;
  const double temperature = double{sampling.temperature};
  // exp((logit - max) / T) >= min_p, as a bound on the logit.
  const float least = MinPBound(maxima_.max, MinPReach(sampling.temperature, sampling.min_p));
  if (has_top_k) {
    KeepMostLikely(logits, sampling.top_k);
    weights.Weigh(candidates_);
    if (has_top_p) KeepMass(MassToKeep(sampling.top_p, TotalWeight(candidates_)));
  } else if (has_top_p) {
    const uint64_t total = weights.Sum(logits);
    const double dropped =
        (1.0 - double{sampling.top_p}) * static_cast<double>(total) * kWeightUnit;
    // Tokens of weight dropped / vocab or less weigh at most `dropped` together, so the cut lies
    // above them. One nat of slack covers the rounding of weights.
    const double reach = std::log(static_cast<double>(vocab) / dropped) + 1.0;
    CollectAtLeast(logits, maxima_,
                   static_cast<float>(double{maxima_.max} - temperature * std::max(reach, 0.0)),
                   &candidates_);
    weights.Weigh(candidates_);
    KeepMass(MassToKeep(sampling.top_p, total));
  } else {
    CollectAtLeast(logits, maxima_, least, &candidates_);
    weights.Weigh(candidates_);
    return;
  }
  std::erase_if(candidates_, [&](const Candidate& c) { return c.logit < least; });
}

// Logits that reach the count-th largest: ties all stay.
void RowSampler::KeepMostLikely(std::span<const float> logits, int64_t count) {
  CollectAtLeast(logits, maxima_, maxima_.LowerBoundOfLargest(count), &candidates_);
  if (static_cast<int64_t>(candidates_.size()) <= count) return;
  order_ = candidates_;
  const auto nth = order_.begin() + (count - 1);
  std::nth_element(order_.begin(), nth, order_.end(), MoreLikely);
  const float least = nth->logit;
  std::erase_if(candidates_, [&](const Candidate& c) { return c.logit < least; });
}

// From the most likely down, a token stays while those before it weigh less than `mass`. Buckets of
// equal width in the logit find the few tokens among which the cut lies; halving finds it there.
void RowSampler::KeepMass(uint64_t mass) {
  uint64_t before = NarrowToCut(mass);  // weight of the tokens ahead of order_, which all stay
  auto begin = order_.begin();
  auto end = order_.end();
  while (end - begin > 32) {
    const auto middle = begin + (end - begin) / 2;
    std::nth_element(begin, middle, end, MoreLikely);
    const uint64_t with_half = before + TotalWeight(std::span<const Candidate>(begin, middle));
    if (with_half < mass) {
      before = with_half;
      begin = middle;
    } else {
      end = middle;
    }
  }
  std::sort(begin, end, MoreLikely);
  Candidate last = *begin;
  for (; begin != end && before < mass; ++begin) {
    last = *begin;
    before += FixedWeight(last.weight);
  }
  std::erase_if(candidates_, [&](const Candidate& c) { return MoreLikely(last, c); });
}

// Fills order_ with the candidates of the bucket in which the weight, added up from the most likely
// down, reaches `mass`; returns the weight before that bucket, which is less than `mass`.
uint64_t RowSampler::NarrowToCut(uint64_t mass) {
  const auto [least, most] =
      std::minmax_element(candidates_.begin(), candidates_.end(),
                          [](const Candidate& a, const Candidate& b) { return a.logit < b.logit; });
  const float top = most->logit;
  const float width = (top - least->logit) / (kBuckets - 1);
  order_ = candidates_;
  if (candidates_.size() <= 2 * kBuckets || !(width > 0) || !std::isfinite(width)) return 0;
  const auto bucket_of = [&](const Candidate& c) {  // monotone in the logit
    return std::min(static_cast<size_t>((top - c.logit) / width), kBuckets - 1);
  };
  std::array<uint64_t, kBuckets> weights = {};
  for (const Candidate& candidate : candidates_)
    weights[bucket_of(candidate)] += FixedWeight(candidate.weight);
  uint64_t before = 0;
  size_t cut = 0;
  for (; cut + 1 < kBuckets && before + weights[cut] < mass; ++cut) before += weights[cut];
  std::erase_if(order_, [&](const Candidate& c) { return bucket_of(c) != cut; });
  return before;
}

TokenId RowSampler::Draw(std::span<const float> logits, const SampleRow& row) {
  const SamplingParams& sampling = row.sampling;
  const LogitWeights weights(maxima_.max, sampling.temperature);
  const uint64_t random = SamplingRandom(sampling.seed, row.choice_index, row.position);
  const bool unfiltered =
      (sampling.top_k <= 0 || sampling.top_k >= static_cast<int64_t>(logits.size())) &&
      sampling.top_p >= 1.0f && sampling.min_p <= 0;
  if (unfiltered) return DrawUnfiltered(logits, weights, random);
  Filter(logits, sampling, weights);
  return Pick(candidates_, DrawTarget(random, TotalWeight(candidates_)));
}

TokenId RowSampler::DrawUnfiltered(std::span<const float> logits, const LogitWeights& weights,
                                   uint64_t random) {
  uint64_t target = DrawTarget(random, weights.Sum(logits, &block_sums_));
  size_t block = 0;
  for (; block + 1 < block_sums_.size() && target >= block_sums_[block]; ++block)
    target -= block_sums_[block];
  const size_t first = block * LogitWeights::kBlock;
  const auto span =
      logits.subspan(first, std::min<size_t>(LogitWeights::kBlock, logits.size() - first));
  float lanes[LogitWeights::kBlock];
  weights.Of(span, lanes);
  candidates_.clear();
  for (size_t i = 0; i < span.size(); ++i)
    candidates_.push_back({span[i], lanes[i], static_cast<TokenId>(first + i)});
  return Pick(candidates_, target);
}

void RowSampler::FillLogprobs(std::span<const float> logits, int32_t num_top,
                              SampleOutput* output) {
  const double log_total = LogOfTotal(LogitWeights(maxima_.max, 1.0f).Sum(logits));
  const auto logprob = [&](float logit) { return LogProbability(logit, maxima_.max, log_total); };
  output->logprob = logprob(logits[static_cast<size_t>(output->token)]);
  const auto count = std::min<int64_t>(num_top, static_cast<int64_t>(logits.size()));
  if (count <= 0) return;
  CollectAtLeast(logits, maxima_, maxima_.LowerBoundOfLargest(count), &candidates_);
  const auto top =
      candidates_.begin() + std::min<int64_t>(count, static_cast<int64_t>(candidates_.size()));
  std::partial_sort(candidates_.begin(), top, candidates_.end(), MoreLikely);
  for (auto it = candidates_.begin(); it != top; ++it)
    output->top.push_back({it->token, logprob(it->logit)});
}

absl::Status Sampler::Run(const SampleParams& params) {
  OCTAVO_RETURN_IF_ERROR(CheckSampleParams(params));
  const auto rows = static_cast<int64_t>(params.rows.size());
  params.out->resize(params.rows.size());

  std::fill(statuses_.begin(), statuses_.end(), absl::OkStatus());
  const auto run = [&](int thread, int threads) {
    for (int64_t row = rows * thread / threads; row < rows * (thread + 1) / threads; ++row) {
      const std::span<const float> logits(params.logits.row(row),
                                          static_cast<size_t>(params.logits.cols));
      absl::StatusOr<SampleOutput> output = threads_[static_cast<size_t>(thread)].Sample(
          logits, params.rows[static_cast<size_t>(row)]);
      if (!output.ok()) {
        statuses_[static_cast<size_t>(thread)] =
            absl::Status(output.status().code(),
                         absl::StrCat("sample: row ", row, ": ", output.status().message()));
        return;
      }
      (*params.out)[static_cast<size_t>(row)] = *std::move(output);
    }
  };
  if (rows <= 1) {
    run(0, 1);
  } else {
    pool_.Run([&](int thread) { run(thread, pool_.size()); });
  }
  for (const absl::Status& status : statuses_) OCTAVO_RETURN_IF_ERROR(status);
  return absl::OkStatus();
}

}  // namespace octavo
