#include "scheduler/core/beam.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/beam_twin.h"

namespace octavo {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using Tops = std::vector<std::vector<TokenLogprob>>;

constexpr TokenId kEnd = 9;

std::vector<BeamSearch::Survivor> Advance(BeamSearch* search, const Tops& tops) {
  std::vector<const std::vector<TokenLogprob>*> lists;
  for (const auto& top : tops) lists.push_back(&top);
  return search->Advance(lists);
}

std::vector<std::pair<int32_t, TokenId>> Pairs(const std::vector<BeamSearch::Survivor>& survivors) {
  std::vector<std::pair<int32_t, TokenId>> pairs;
  for (const auto& survivor : survivors) pairs.emplace_back(survivor.parent, survivor.token);
  return pairs;
}

using Pair = std::pair<int32_t, TokenId>;

TEST(BeamParams, NamesFieldValueAndLimit) {
  EXPECT_TRUE(Validate(BeamParams{.width = 32, .length_penalty = -10}).ok());
  EXPECT_EQ(Validate(BeamParams{.width = 33}).message(), "beam width is 33; it must be in [1, 32]");
  EXPECT_FALSE(Validate(BeamParams{.width = 0}).ok());
  EXPECT_THAT(std::string(Validate(BeamParams{.length_penalty = 11}).message()),
              HasSubstr("length_penalty is 11; it must be in [-10, 10]"));
  EXPECT_FALSE(
      Validate(BeamParams{.length_penalty = std::numeric_limits<double>::quiet_NaN()}).ok());
}

TEST(BeamLogprobs, AreEnoughForTheWidthBesidesEveryEndToken) {
  EXPECT_EQ(BeamLogprobs({.width = 4}, 1), 8);
  EXPECT_EQ(BeamLogprobs({.width = 1}, 3), 4);
  EXPECT_EQ(BeamLogprobs({.width = 32}, 1), 64);
  EXPECT_EQ(BeamLogprobs({.width = 32}, 1000), 64);
}

TEST(BeamSearch, RanksAllContinuationsBySum) {
  BeamSearch search({.width = 2}, 3, {kEnd});
  EXPECT_THAT(Pairs(Advance(&search, {{{1, -0.5f}, {2, -1}, {3, -2}}})),
              ElementsAre(Pair(0, 1), Pair(0, 2)));
  // -0.5 - 2 = -2.5, -0.5 - 3 = -3.5; -1 - 0.25 = -1.25, -1 - 2 = -3
  EXPECT_THAT(Pairs(Advance(&search, {{{4, -2}, {5, -3}}, {{6, -0.25f}, {7, -2}}})),
              ElementsAre(Pair(1, 6), Pair(0, 4)));
  EXPECT_EQ(search.length(), 2);
  EXPECT_THAT(Advance(&search, {{{1, -1}, {2, -4}}, {{3, -0.5f}, {4, -4}}}), IsEmpty());
  EXPECT_TRUE(search.ended());
  const std::vector<Hypothesis> finished = search.Finished();
  ASSERT_THAT(finished, SizeIs(2));
  EXPECT_THAT(finished[0].tokens, ElementsAre(2, 6, 1));
  EXPECT_THAT(finished[0].logprobs, ElementsAre(-1, -0.25f, -1));
  EXPECT_DOUBLE_EQ(finished[0].score, -2.25 / 3);
  EXPECT_FALSE(finished[0].stopped);
  EXPECT_THAT(finished[1].tokens, ElementsAre(1, 4, 3));
  EXPECT_DOUBLE_EQ(finished[1].score, -3.0 / 3);
}

TEST(BeamSearch, BreaksTiesByBeamThenToken) {
  BeamSearch search({.width = 2}, 9, {kEnd});
  EXPECT_THAT(Pairs(Advance(&search, {{{3, -1}, {5, -1}, {7, -1}}})),
              ElementsAre(Pair(0, 3), Pair(0, 5)));
  EXPECT_THAT(Pairs(Advance(&search, {{{6, -1}, {8, -1}}, {{2, -1}, {4, -1}}})),
              ElementsAre(Pair(0, 6), Pair(0, 8)));
}

TEST(BeamSearch, AnEndCountsOnlyAmongTheBestWidth) {
  BeamSearch search({.width = 2}, 9, {kEnd});
  EXPECT_THAT(Pairs(Advance(&search, {{{1, -1}, {2, -2}, {kEnd, -3}, {3, -4}}})),
              ElementsAre(Pair(0, 1), Pair(0, 2)));
  EXPECT_THAT(search.Finished(), IsEmpty());
  EXPECT_THAT(Pairs(Advance(&search, {{{kEnd, -1}, {4, -2}, {5, -3}}, {{6, -4}, {7, -5}}})),
              ElementsAre(Pair(0, 4), Pair(0, 5)));
  const std::vector<Hypothesis> finished = search.Finished();
  ASSERT_THAT(finished, SizeIs(1));
  EXPECT_THAT(finished[0].tokens, ElementsAre(1, kEnd));
  EXPECT_TRUE(finished[0].stopped);
  EXPECT_DOUBLE_EQ(finished[0].score, -1);
}

TEST(BeamSearch, EarlyStopTrueEndsWhenWidthHaveFinished) {
  BeamSearch search({.width = 1, .early_stopping = EarlyStopping::kTrue}, 9, {kEnd});
  EXPECT_THAT(Advance(&search, {{{kEnd, -2}, {1, -2.1f}}}), IsEmpty());
  EXPECT_THAT(search.Finished(), SizeIs(1));
}

TEST(BeamSearch, EarlyStopFalseEndsWhenThePresentLengthCannotWin) {
  // At length 1: finished -2, live -2.1 / 1 is worse.
  BeamSearch ends({.width = 1, .early_stopping = EarlyStopping::kFalse}, 9, {kEnd});
  EXPECT_THAT(Advance(&ends, {{{kEnd, -2}, {1, -2.1f}}}), IsEmpty());
  // With no penalty for length it goes on as long as the plain sum is better.
  BeamSearch even({.width = 1, .length_penalty = 0}, 9, {kEnd});
  EXPECT_THAT(Advance(&even, {{{1, -1}, {kEnd, -2}}}), SizeIs(1));
  EXPECT_THAT(Advance(&even, {{{kEnd, -1}, {1, -1.5f}}}), IsEmpty());
}

TEST(BeamSearch, EarlyStopNeverLooksAtTheLongestLength) {
  const BeamParams params = {.width = 1, .early_stopping = EarlyStopping::kNever};
  BeamSearch search(params, 4, {kEnd});
  // -2.1 / 4 is better than -2: it may still win, and does.
  EXPECT_THAT(Advance(&search, {{{kEnd, -2}, {1, -2.1f}}}), SizeIs(1));
  EXPECT_THAT(Advance(&search, {{{2, -0.1f}}}), SizeIs(1));
  EXPECT_THAT(Advance(&search, {{{kEnd, -0.1f}, {3, -9}}}), IsEmpty());
  EXPECT_THAT(search.Finished().at(0).tokens, ElementsAre(1, 2, kEnd));
  // Where short ones are favoured, the present length is the best that can be hoped for.
  BeamSearch shorter({.width = 1, .length_penalty = -1, .early_stopping = EarlyStopping::kNever}, 4,
                     {kEnd});
  EXPECT_THAT(Advance(&shorter, {{{kEnd, -2}, {1, -2.1f}}}), IsEmpty());
}

TEST(BeamSearch, FewerFinishedThanTheWidthNeverStopIt) {
  for (const EarlyStopping early :
       {EarlyStopping::kFalse, EarlyStopping::kTrue, EarlyStopping::kNever}) {
    BeamSearch search({.width = 2, .early_stopping = early}, 9, {kEnd});
    EXPECT_THAT(Advance(&search, {{{kEnd, -0.1f}, {1, -50}, {2, -60}}}), SizeIs(2));
  }
}

TEST(BeamSearch, KeepsTheBestWidthFinished) {
  BeamSearch search({.width = 2, .length_penalty = 0}, 3, {kEnd});
  Advance(&search, {{{1, -1}, {kEnd, -1.5f}, {2, -2}, {3, -3}}});
  EXPECT_THAT(search.Finished(), SizeIs(1));
  Advance(&search, {{{4, -0.1f}, {kEnd, -0.2f}}, {{5, -4}, {6, -5}}});
  ASSERT_THAT(search.Finished(), SizeIs(2));
  EXPECT_THAT(search.Finished()[0].tokens, ElementsAre(1, kEnd));
  Advance(&search, {{{kEnd, -0.01f}, {7, -0.02f}}, {{8, -9}}});
  const std::vector<Hypothesis> finished = search.Finished();
  ASSERT_THAT(finished, SizeIs(2));
  EXPECT_THAT(finished[0].tokens, ElementsAre(1, 4, kEnd));
  EXPECT_THAT(finished[1].tokens, ElementsAre(1, 4, 7));
}

TEST(BeamSearch, EndsWhenEveryContinuationEnds) {
  BeamSearch search({.width = 2}, 9, {kEnd, 8});
  EXPECT_THAT(Advance(&search, {{{8, -1}, {kEnd, -2}}}), IsEmpty());
  EXPECT_TRUE(search.ended());
  EXPECT_THAT(search.Finished(), SizeIs(2));
}

// Log-probabilities in few steps, so that sums often tie.
std::vector<float> RandomLogprobs(uint64_t seed, const std::vector<TokenId>& output, int vocab) {
  uint64_t hash = seed;
  for (const TokenId token : output)
    hash = (hash ^ static_cast<uint64_t>(token + 1)) * 0x100000001b3;
  std::mt19937_64 random(hash);
  std::vector<float> logprobs;
  for (int i = 0; i < vocab; ++i) logprobs.push_back(-0.25f * static_cast<float>(random() % 17));
  return logprobs;
}

TEST(BeamSearch, AgreesWithANaiveTwin) {
  std::mt19937_64 random(5);
  int stopped = 0;
  int early = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    const BeamParams params = {
        .width = static_cast<int32_t>(1 + random() % 8),
        .length_penalty = std::vector<double>{0, 1, 1, 0.6, 2, -1}[random() % 6],
        .early_stopping = static_cast<EarlyStopping>(random() % 3)};
    const int vocab = static_cast<int>(8 + random() % 40);
    const auto max_tokens = static_cast<int32_t>(1 + random() % 12);
    std::vector<TokenId> ends = {1};
    if (random() % 4 == 0) ends = {1, 3, 5};
    const auto next = [&](const std::vector<TokenId>& output) {
      return RandomLogprobs(seed, output, vocab);
    };
    const std::vector<Hypothesis> expected = NaiveBeamSearch(params, max_tokens, ends, next);

    BeamSearch search(params, max_tokens, ends);
    const auto count =
        std::min<size_t>(static_cast<size_t>(BeamLogprobs(params, ends.size())), vocab);
    std::vector<std::vector<TokenId>> outputs(1);
    while (!search.ended()) {
      Tops tops;
      for (const std::vector<TokenId>& output : outputs) {
        const std::vector<float> logprobs = next(output);
        std::vector<TokenId> order(logprobs.size());
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(),
                         [&](TokenId a, TokenId b) { return logprobs[a] > logprobs[b]; });
        auto& top = tops.emplace_back();
        for (size_t i = 0; i < count; ++i) top.push_back({order[i], logprobs[order[i]]});
      }
      std::vector<std::vector<TokenId>> longer;
      for (const auto& survivor : Advance(&search, tops)) {
        longer.push_back(outputs[static_cast<size_t>(survivor.parent)]);
        longer.back().push_back(survivor.token);
      }
      outputs = longer;
    }
    const std::vector<Hypothesis> finished = search.Finished();
    ASSERT_EQ(finished.size(), expected.size()) << seed;
    for (size_t i = 0; i < finished.size(); ++i) {
      ASSERT_EQ(finished[i].tokens, expected[i].tokens) << seed;
      ASSERT_EQ(finished[i].logprobs, expected[i].logprobs) << seed;
      ASSERT_EQ(finished[i].score, expected[i].score) << seed;
      ASSERT_EQ(finished[i].stopped, expected[i].stopped) << seed;
      stopped += finished[i].stopped ? 1 : 0;
    }
    early += search.length() < max_tokens ? 1 : 0;
  }
  EXPECT_GT(stopped, 1000);
  EXPECT_GT(early, 200);
}

}  // namespace
}  // namespace octavo
