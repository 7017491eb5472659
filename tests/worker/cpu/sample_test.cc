#include "worker/cpu/sample.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace octavo {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> RandomLogits(size_t vocab, float spread, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> logits(vocab);
  for (float& logit : logits) logit = normal(random);
  return logits;
}

SamplingParams Params(float temperature, int32_t top_k = 0, float top_p = 1, float min_p = 0) {
  SamplingParams params;
  params.temperature = temperature;
  params.top_k = top_k;
  params.top_p = top_p;
  params.min_p = min_p;
  return params;
}

// The definition of docs/sampling.md, with a full sort and doubles.
std::vector<TokenId> SlowSurvivors(const std::vector<float>& logits, const SamplingParams& params) {
  std::vector<TokenId> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto logit = [&](TokenId id) { return double{logits[static_cast<size_t>(id)]}; };
  std::erase_if(order, [&](TokenId id) { return std::isinf(logit(id)); });
  std::stable_sort(order.begin(), order.end(),
                   [&](TokenId a, TokenId b) { return logit(a) > logit(b); });
  const auto weight = [&](TokenId id) {
    return std::exp((logit(id) - logit(order[0])) / double{params.temperature});
  };
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < order.size()) {
    const double least = logit(order[static_cast<size_t>(params.top_k) - 1]);
    std::erase_if(order, [&](TokenId id) { return logit(id) < least; });
  }
  if (params.top_p < 1) {
    double total = 0;
    for (const TokenId id : order) total += weight(id);
    double before = 0;
    size_t kept = 0;
    for (; kept < order.size() && (kept == 0 || before < double{params.top_p} * total); ++kept)
      before += weight(order[kept]);
    order.resize(kept);
  }
  if (params.min_p > 0)
    std::erase_if(order, [&](TokenId id) { return weight(id) < double{params.min_p}; });
  std::sort(order.begin(), order.end());
  return order;
}

std::vector<TokenId> Ids(std::span<const Candidate> candidates) {
  std::vector<TokenId> ids;
  for (const Candidate& candidate : candidates) ids.push_back(candidate.token);
  return ids;
}

TEST(RowSampler, FiltersAsDefined) {
  RowSampler sampler;
  for (const size_t vocab : {1u, 2u, 15u, 16u, 17u, 1000u, 32003u})
    for (const float spread : {0.01f, 1.0f, 4.0f})
      for (const auto& params :
           {Params(1), Params(1, 1), Params(1, 5), Params(0.7f, 40), Params(1, 900),
            Params(1, 0, 0.1f), Params(1, 0, 0.5f), Params(1, 0, 0.9f), Params(1, 0, 0.95f),
            Params(1.5f, 0, 0.8f), Params(0.3f, 0, 0.9f), Params(1, 0, 1, 0.05f),
            Params(2, 0, 1, 0.3f), Params(1, 0, 1, 1), Params(0.7f, 20, 0.8f),
            Params(0.8f, 40, 0.95f, 0.05f), Params(1, 0, 0.99f, 0.01f)}) {
        const std::vector<float> logits = RandomLogits(vocab, spread, vocab);
        EXPECT_EQ(Ids(sampler.Survivors(logits, params)), SlowSurvivors(logits, params))
            << "vocab " << vocab << " spread " << spread << " T " << params.temperature << " k "
            << params.top_k << " p " << params.top_p << " min_p " << params.min_p;
      }
}

TEST(RowSampler, KeepsTiesOfTopKAndPrefersLowIdsInTopP) {
  RowSampler sampler;
  const std::vector<float> logits = {1, 3, 2, 2, 2, 0};
  EXPECT_THAT(Ids(sampler.Survivors(logits, Params(1, 2))), ElementsAre(1, 2, 3, 4));
  // exp: 20.1, then three of 7.39, 2.72, 1: half of 46 is reached by 20.1 and one tie.
  EXPECT_THAT(Ids(sampler.Survivors(logits, Params(1, 0, 0.5f))), ElementsAre(1, 2));
  EXPECT_THAT(Ids(sampler.Survivors(logits, Params(1, 0, 0.7f))), ElementsAre(1, 2, 3));
  const std::vector<float> flat(5000, 1.5f);
  std::vector<TokenId> half(2500);
  std::iota(half.begin(), half.end(), 0);
  EXPECT_EQ(Ids(sampler.Survivors(flat, Params(1, 0, 0.5f))), half);
  EXPECT_EQ(sampler.Survivors(flat, Params(1, 7)).size(), 5000u);
}

TEST(RowSampler, FiltersWithManyEqualLogits) {
  RowSampler sampler;
  std::mt19937_64 random(3);
  std::vector<float> logits(4096);
  for (float& logit : logits) logit = static_cast<float>(random() % 7);
  for (const auto& params : {Params(1, 100), Params(1, 3000), Params(1, 0, 0.3f),
                             Params(1, 0, 0.95f), Params(1, 700, 0.9f, 0.1f)})
    EXPECT_EQ(Ids(sampler.Survivors(logits, params)), SlowSurvivors(logits, params));
}

TEST(RowSampler, NeverTakesTokensAtMinusInfinity) {
  RowSampler sampler;
  std::vector<float> logits(300, -kInfinity);
  logits[17] = -50;
  logits[280] = -51;
  for (int64_t position = 0; position < 200; ++position) {
    SampleRow row{Params(5), 0, position};
    const TokenId token = sampler.Sample(logits, row)->token;
    EXPECT_TRUE(token == 17 || token == 280) << token;
  }
  EXPECT_THAT(Ids(sampler.Survivors(logits, Params(1, 5))), ElementsAre(17, 280));
}

TEST(RowSampler, GreedyTakesTheLowestIdOnTies) {
  RowSampler sampler;
  for (const size_t vocab : {1u, 16u, 33u, 500u}) {
    std::vector<float> logits(vocab, -2.0f);
    EXPECT_EQ(sampler.Sample(logits, {Params(0), 0, 0})->token, 0);
    logits[vocab - 1] = 1;
    EXPECT_EQ(sampler.Sample(logits, {Params(0), 0, 0})->token, static_cast<TokenId>(vocab - 1));
    logits[vocab / 2] = 1;
    EXPECT_EQ(sampler.Sample(logits, {Params(0), 0, 0})->token, static_cast<TokenId>(vocab / 2));
  }
}

// Pearson's statistic of 40,000 draws against the exact distribution.
double ChiSquare(const std::vector<float>& logits, const SamplingParams& params) {
  RowSampler sampler;
  const std::vector<TokenId> survivors = SlowSurvivors(logits, params);
  std::map<TokenId, int> counts;
  constexpr int kDraws = 40'000;
  for (int i = 0; i < kDraws; ++i) {
    SampleRow row{params, 3, 1000 + i};
    row.sampling.seed = 0x1234567890abcdef;
    ++counts[sampler.Sample(logits, row)->token];
  }
  double total = 0;
  for (const TokenId id : survivors)
    total += std::exp(double{logits[static_cast<size_t>(id)]} / double{params.temperature});
  double statistic = 0;
  for (const TokenId id : survivors) {
    const double expected =
        kDraws * std::exp(double{logits[static_cast<size_t>(id)]} / double{params.temperature}) /
        total;
    const double difference = counts[id] - expected;
    statistic += difference * difference / expected;
    counts.erase(id);
  }
  EXPECT_TRUE(counts.empty()) << "drew token " << counts.begin()->first << ", which is filtered";
  return statistic;
}

TEST(RowSampler, DrawsWithTheRightFrequencies) {
  // 24 tokens with probabilities of 1 % or more. 23 degrees of freedom: above 58 once in 10,000.
  EXPECT_LT(ChiSquare(RandomLogits(24, 0.6f, 9), Params(1)), 58);
  EXPECT_LT(ChiSquare(RandomLogits(24, 1.2f, 9), Params(2)), 58);
  EXPECT_LT(ChiSquare(RandomLogits(2000, 2, 10), Params(1.2f, 20)), 51);
  EXPECT_LT(ChiSquare(RandomLogits(400, 1, 11), Params(0.5f, 0, 0.6f)), 60);
  EXPECT_LT(ChiSquare(RandomLogits(400, 1, 12), Params(1, 0, 1, 0.3f)), 60);
}

TEST(RowSampler, DependsOnSeedChoiceAndPositionOnly) {
  const std::vector<float> logits = RandomLogits(5000, 1, 13);
  RowSampler fresh, used;
  int changed_by_seed = 0, changed_by_choice = 0;
  for (int64_t position = 0; position < 50; ++position) {
    SampleRow row{Params(1, 0, 0.9f), 0, position};
    row.sampling.seed = 5;
    const TokenId token = fresh.Sample(logits, row)->token;
    (void)used.Sample(RandomLogits(77, 1, static_cast<uint64_t>(position)), row);
    EXPECT_EQ(used.Sample(logits, row)->token, token);
    row.sampling.num_logprobs = 4;
    EXPECT_EQ(used.Sample(logits, row)->token, token);
    row.sampling.seed = 6;
    changed_by_seed += used.Sample(logits, row)->token != token;
    row.sampling.seed = 5;
    row.choice_index = 1;
    changed_by_choice += used.Sample(logits, row)->token != token;
  }
  EXPECT_GT(changed_by_seed, 40);
  EXPECT_GT(changed_by_choice, 40);
}

TEST(RowSampler, GivesLogprobsOfTheUnfilteredDistribution) {
  RowSampler sampler;
  for (const size_t vocab : {1u, 40u, 49152u})
    for (const float spread : {0.1f, 5.0f}) {
      const std::vector<float> logits = RandomLogits(vocab, spread, 14);
      const double max = double{*std::max_element(logits.begin(), logits.end())};
      double total = 0;
      for (const float logit : logits) total += std::exp(double{logit} - max);
      const auto expected = [&](TokenId id) {
        return double{logits[static_cast<size_t>(id)]} - max - std::log(total);
      };
      SampleRow row{Params(0.5f, 3), 0, 8};
      row.sampling.num_logprobs = kMaxStepLogprobs;
      const SampleOutput output = sampler.Sample(logits, row).value();
      EXPECT_NEAR(output.logprob, expected(output.token), 1e-5);
      ASSERT_EQ(output.top.size(), std::min<size_t>(kMaxStepLogprobs, vocab));
      std::vector<TokenId> order(vocab);
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](TokenId a, TokenId b) {
        return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
      });
      for (size_t i = 0; i < output.top.size(); ++i) {
        EXPECT_EQ(output.top[i].token, order[i]);
        EXPECT_NEAR(output.top[i].logprob, expected(order[i]), 1e-5);
      }
    }
}

TEST(RowSampler, OrdersEqualLogprobsById) {
  RowSampler sampler;
  const std::vector<float> logits(600, 0.25f);
  SampleRow row{Params(0), 0, 0};
  row.sampling.num_logprobs = 3;
  const SampleOutput output = sampler.Sample(logits, row).value();
  ASSERT_EQ(output.top.size(), 3u);
  for (TokenId i = 0; i < 3; ++i) EXPECT_EQ(output.top[static_cast<size_t>(i)].token, i);
  EXPECT_NEAR(output.logprob, -std::log(600.0), 1e-5);
}

TEST(RowSampler, SurvivesExtremeTemperatures) {
  RowSampler sampler;
  const std::vector<float> logits = RandomLogits(1000, 3, 15);
  const auto best =
      static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  for (const float temperature : {1e-30f, 1e-45f, 1e-4f})
    for (int64_t position = 0; position < 20; ++position) {
      EXPECT_EQ(sampler.Sample(logits, {Params(temperature), 0, position})->token, best);
      EXPECT_EQ(sampler.Sample(logits, {Params(temperature, 0, 0.9f), 0, position})->token, best);
    }
  for (const float temperature : {1e30f, std::numeric_limits<float>::max()})
    for (int64_t position = 0; position < 20; ++position)
      EXPECT_TRUE(sampler.Sample(logits, {Params(temperature, 0, 0.9f, 0.5f), 0, position}).ok());
}

TEST(Sampler, SpreadsRowsWithoutChangingThem) {
  constexpr int64_t kRows = 37, kVocab = 3000;
  std::vector<float> logits = RandomLogits(kRows * kVocab, 2, 16);
  std::vector<std::vector<SampleOutput>> outputs;
  for (const int threads : {1, 2, 3}) {
    ThreadPool pool(threads);
    Sampler sampler(pool);
    SampleParams params;
    params.logits = {logits.data(), kRows, kVocab, kVocab};
    for (int64_t row = 0; row < kRows; ++row) {
      SampleRow sample{row % 3 == 0 ? Params(0) : Params(0.9f, 50, 0.9f), 0, row};
      sample.sampling.num_logprobs = static_cast<int32_t>(row % 4) - 1;
      params.rows.push_back(sample);
    }
    std::vector<SampleOutput>& out = outputs.emplace_back();
    params.out = &out;
    ASSERT_TRUE(sampler.Run(params).ok());
    ASSERT_EQ(out.size(), static_cast<size_t>(kRows));
    for (size_t row = 0; row < out.size(); ++row) {
      EXPECT_EQ(out[row].token, outputs[0][row].token);
      EXPECT_EQ(out[row].logprob, outputs[0][row].logprob);
      EXPECT_EQ(out[row].top, outputs[0][row].top);
    }
  }
}

TEST(Sampler, NamesTheFirstRowThatIsNotNumbers) {
  ThreadPool pool(3);
  Sampler sampler(pool);
  for (const float bad : {NAN, kInfinity}) {
    std::vector<float> logits = RandomLogits(5 * 1001, 1, 17);
    logits[2 * 1001 + 1000] = bad;
    logits[4 * 1001] = bad;
    std::vector<SampleOutput> out;
    SampleParams params;
    params.logits = {logits.data(), 5, 1001, 1001};
    params.rows.resize(5, {Params(1), 0, 0});
    params.rows[2].sampling = Params(0);
    params.out = &out;
    const absl::Status status = sampler.Run(params);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(status.message()), HasSubstr("row 2"));
  }
}

TEST(Sampler, RefusesRowsThatDoNotMatch) {
  ThreadPool pool(1);
  Sampler sampler(pool);
  std::vector<float> logits(20, 0);
  std::vector<SampleOutput> out;
  SampleParams params;
  params.logits = {logits.data(), 2, 10, 10};
  params.rows.resize(1);
  params.out = &out;
  EXPECT_EQ(sampler.Run(params).code(), absl::StatusCode::kInvalidArgument);
  params.rows.resize(2);
  EXPECT_TRUE(sampler.Run(params).ok());
  params.rows[1].sampling.top_p = NAN;
  EXPECT_EQ(sampler.Run(params).code(), absl::StatusCode::kInvalidArgument);
}

TEST(RowSampler, ReportsATargetInsteadOfChoosing) {
  const std::vector<float> logits = RandomLogits(1000, 3, 8);
  RowSampler sampler;
  SampleRow row;
  row.sampling.num_logprobs = 2;
  row.target = 777;
  const SampleOutput output = sampler.Sample(logits, row).value();
  EXPECT_EQ(output.token, 777);
  double total = 0;
  for (const float logit : logits) total += std::exp(double{logit});
  EXPECT_NEAR(output.logprob, double{logits[777]} - std::log(total), 1e-5);
  row.sampling.temperature = 0;
  row.target = -1;
  const SampleOutput greedy = sampler.Sample(logits, row).value();
  EXPECT_EQ(output.top, greedy.top);
  EXPECT_EQ(greedy.token, greedy.top[0].token);
}

}  // namespace
}  // namespace octavo
