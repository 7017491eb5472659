#include "worker/cpu/sample.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/philox.h"
#include "common/status_macros.h"

namespace octavo {
namespace {

constexpr size_t kBuckets = 512;

// The smallest float that is not below x.
float RoundUp(double x) {
  const float nearest = static_cast<float>(x);
  return double{nearest} >= x ? nearest
                              : std::nextafter(nearest, std::numeric_limits<float>::infinity());
}

double TotalWeight(std::span<const Candidate> candidates) {
  double total = 0;
  for (const Candidate& candidate : candidates) total += double{candidate.weight};
  return total;
}

// The first token whose running total exceeds `target`; the last one when rounding left none.
TokenId Pick(std::span<const Candidate> candidates, double target) {
  double running = 0;
  TokenId picked = candidates.front().token;
  for (const Candidate& candidate : candidates) {
    if (candidate.weight > 0) picked = candidate.token;
    running += double{candidate.weight};
    if (running > target) break;
  }
  return picked;
}

}  // namespace

double SamplingUniform(const SampleRow& row) {
  const auto bits =
      SamplingBits(row.sampling.seed, row.choice_index, static_cast<uint64_t>(row.position));
  return static_cast<double>((uint64_t{bits[0]} << 32 | bits[1]) >> 11) * 0x1p-53;
}

absl::StatusOr<SampleOutput> RowSampler::Sample(std::span<const float> logits,
                                                const SampleRow& row) {
  if (!maxima_.Scan(logits))
    return absl::InternalError(absl::StrCat(
        "logits hold NaN or infinity, or none is finite; the largest is ", maxima_.max));
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
  const float least =
      sampling.min_p > 0
          ? RoundUp(double{maxima_.max} + temperature * std::log(double{sampling.min_p}))
          : std::numeric_limits<float>::lowest();
  if (has_top_k) {
    KeepMostLikely(logits, sampling.top_k);
    weights.Weigh(candidates_);
    if (has_top_p) KeepMass(double{sampling.top_p} * TotalWeight(candidates_));
  } else if (has_top_p) {
    const double total = weights.Sum(logits);
    const double dropped = (1.0 - double{sampling.top_p}) * total;
    // Tokens of weight dropped / vocab or less weigh at most `dropped` together, so the cut lies
    // above them. One nat of slack covers the rounding of weights.
    const double reach = std::log(static_cast<double>(vocab) / dropped) + 1.0;
    CollectAtLeast(logits, maxima_,
                   static_cast<float>(double{maxima_.max} - temperature * std::max(reach, 0.0)),
                   &candidates_);
    weights.Weigh(candidates_);
    KeepMass(double{sampling.top_p} * total);
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
void RowSampler::KeepMass(double mass) {
  double before = NarrowToCut(mass);  // weight of the tokens ahead of order_, which all stay
  auto begin = order_.begin();
  auto end = order_.end();
  while (end - begin > 32) {
    const auto middle = begin + (end - begin) / 2;
    std::nth_element(begin, middle, end, MoreLikely);
    const double with_half = before + TotalWeight(std::span<const Candidate>(begin, middle));
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
    before += double{last.weight};
  }
  std::erase_if(candidates_, [&](const Candidate& c) { return MoreLikely(last, c); });
}

// Fills order_ with the candidates of the bucket in which the weight, added up from the most likely
// down, reaches `mass`; returns the weight before that bucket, which is less than `mass`.
double RowSampler::NarrowToCut(double mass) {
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
  std::array<double, kBuckets> weights = {};
  for (const Candidate& candidate : candidates_)
    weights[bucket_of(candidate)] += double{candidate.weight};
  double before = 0;
  size_t cut = 0;
  for (; cut + 1 < kBuckets && before + weights[cut] < mass; ++cut) before += weights[cut];
  std::erase_if(order_, [&](const Candidate& c) { return bucket_of(c) != cut; });
  // Rounding may have pushed the cut past the last token that weighs anything.
  if (order_.empty()) {
    order_ = candidates_;
    return 0;
  }
  return before;
}

TokenId RowSampler::Draw(std::span<const float> logits, const SampleRow& row) {
  const SamplingParams& sampling = row.sampling;
  const LogitWeights weights(maxima_.max, sampling.temperature);
  const double uniform = SamplingUniform(row);
  const bool unfiltered =
      (sampling.top_k <= 0 || sampling.top_k >= static_cast<int64_t>(logits.size())) &&
      sampling.top_p >= 1.0f && sampling.min_p <= 0;
  if (unfiltered) return DrawUnfiltered(logits, weights, uniform);
  Filter(logits, sampling, weights);
  return Pick(candidates_, uniform * TotalWeight(candidates_));
}

TokenId RowSampler::DrawUnfiltered(std::span<const float> logits, const LogitWeights& weights,
                                   double uniform) {
  double target = uniform * weights.Sum(logits, &block_sums_);
  size_t block = 0;
  size_t last_with_weight = 0;
  for (; block < block_sums_.size(); ++block) {
    if (block_sums_[block] > 0) last_with_weight = block;
    if (target < block_sums_[block]) break;
    target -= block_sums_[block];
  }
  if (block == block_sums_.size()) block = last_with_weight;
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
  const double log_total = std::log(LogitWeights(maxima_.max, 1.0f).Sum(logits));
  const auto logprob = [&](float logit) {
    return static_cast<float>(double{logit} - double{maxima_.max} - log_total);
  };
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
  const auto rows = static_cast<int64_t>(params.rows.size());
  if (params.out == nullptr) return absl::InvalidArgumentError("sample: out is missing");
  if (rows != params.logits.rows)
    return absl::InvalidArgumentError(
        absl::StrCat("sample: ", rows, " rows to sample; logits have ", params.logits.rows));
  if (rows > 0 && (params.logits.cols <= 0 || params.logits.data == nullptr))
    return absl::InvalidArgumentError(
        absl::StrCat("sample: logits have ", params.logits.cols, " columns"));
  for (const SampleRow& row : params.rows) {
    OCTAVO_RETURN_IF_ERROR(Validate(row.sampling, kMaxStepLogprobs));
    if (row.target >= params.logits.cols)
      return absl::InvalidArgumentError(absl::StrCat("sample: the target is token ", row.target,
                                                     "; logits have ", params.logits.cols,
                                                     " columns"));
  }
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
