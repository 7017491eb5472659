#include "scheduler/core/cost_model.h"

#include "gtest/gtest.h"

namespace octavo {
namespace {

SchedulerConfig Config() {
  SchedulerConfig config;
  config.block_bytes = 1000;
  config.initial_prefill_tokens_per_second = 100;
  config.initial_swap_bytes_per_second = 5000;
  return config;
}

TEST(CostModel, BeginsWithTheConfiguredRates) {
  const CostModel costs(Config());
  const VictimCosts victim = costs.Estimate(/*tokens=*/50, /*blocks=*/10, 0);
  EXPECT_DOUBLE_EQ(victim.recompute_seconds, 0.5);
  EXPECT_DOUBLE_EQ(victim.swap_seconds, 2 + 2);
}

TEST(CostModel, APrefillTokenCostsWhatItAddsToAStepOfDecodes) {
  CostModel costs(Config());
  costs.Observe({.decode_tokens = 8, .compute_seconds = 0.030});
  costs.Observe({.prefill_tokens = 100, .decode_tokens = 8, .compute_seconds = 0.080});
  EXPECT_DOUBLE_EQ(costs.prefill_tokens_per_second(), 100 / 0.050);
  // Weighed by tokens: a short chunk says little.
  costs.Observe({.prefill_tokens = 1, .decode_tokens = 8, .compute_seconds = 0.031});
  EXPECT_NEAR(costs.prefill_tokens_per_second(), 91 / (0.045 + 0.0031), 1e-6);
}

TEST(CostModel, NoiseCannotMakeTokensFree) {
  CostModel costs(Config());
  costs.Observe({.decode_tokens = 8, .compute_seconds = 0.030});
  costs.Observe({.prefill_tokens = 10, .decode_tokens = 8, .compute_seconds = 0.020});
  EXPECT_DOUBLE_EQ(costs.prefill_tokens_per_second(), 10 / 0.002);
}

TEST(CostModel, RatesFollowTheLastObservations) {
  CostModel costs(Config());
  const auto observe = [&](double bytes_per_second) {
    costs.Observe({.swap_out_bytes = 1000,
                   .swap_out_seconds = 1000 / bytes_per_second,
                   .swap_in_bytes = 1000,
                   .swap_in_seconds = 500 / bytes_per_second});
  };
  observe(1e6);
  EXPECT_DOUBLE_EQ(costs.swap_out_bytes_per_second(), 1e6);
  EXPECT_DOUBLE_EQ(costs.swap_in_bytes_per_second(), 2e6);
  for (int i = 0; i < 100; ++i) observe(1e7);
  EXPECT_NEAR(costs.swap_out_bytes_per_second(), 1e7, 1e4);
  // A step that says nothing changes nothing.
  costs.Observe({.swap_out_bytes = 1000, .swap_out_seconds = 0});
  costs.Observe({});
  EXPECT_NEAR(costs.swap_out_bytes_per_second(), 1e7, 1e4);
}

TEST(CostModel, WhatSurvivesIsNeitherComputedNorCopiedIn) {
  CostModel costs(Config());
  EXPECT_EQ(costs.survival(), 0);
  costs.ObserveReturn(/*given_up=*/100, /*found=*/75);
  EXPECT_DOUBLE_EQ(costs.survival(), 0.75);
  const VictimCosts victim = costs.Estimate(100, 10, 0);
  EXPECT_DOUBLE_EQ(victim.recompute_seconds, 0.25);
  EXPECT_DOUBLE_EQ(victim.swap_seconds, 2 + 0.5);
  costs.ObserveReturn(0, 0);
  costs.ObserveReturn(10, 99);  // more than it gave up is all of it
  EXPECT_LE(costs.survival(), 1);
}

TEST(CostModel, CopiesCostWhatTheyAddToAStep) {
  CostModel costs(Config());
  costs.Observe({.decode_tokens = 8, .compute_seconds = 1.5});
  // 10 blocks take 2 s each way, of which a step hides 1.5 s; 5 blocks take 1 s.
  EXPECT_DOUBLE_EQ(costs.Estimate(50, 10, 0).swap_seconds, 0.5 + 0.5);
  EXPECT_DOUBLE_EQ(costs.Estimate(50, 5, 0).swap_seconds, 0);
  // Two blocks more leave 0.1 s of the step to this victim.
  EXPECT_NEAR(costs.Estimate(50, 5, 7).swap_seconds, 0.9, 1e-12);
  // Twenty outlast the step already.
  EXPECT_NEAR(costs.Estimate(50, 5, 20).swap_seconds, 1, 1e-12);
  // What survives is not copied in.
  costs.ObserveReturn(100, 50);
  EXPECT_DOUBLE_EQ(costs.Estimate(50, 10, 0).swap_seconds, 0.5);
}

TEST(CostModel, ASwapIsTriedBeforeItsRateIsBelieved) {
  CostModel costs(Config());
  EXPECT_TRUE(costs.ProbesSwap());
  costs.NoteVictim(PreemptionMode::kSwap);
  EXPECT_TRUE(costs.ProbesSwap());  // its step is not answered yet
  costs.Observe({.swap_out_bytes = 1000, .swap_out_seconds = 1});
  EXPECT_FALSE(costs.ProbesSwap());
  int recomputed = 0;
  for (; !costs.ProbesSwap(); ++recomputed) costs.NoteVictim(PreemptionMode::kRecompute);
  EXPECT_EQ(recomputed, 64);
  costs.NoteVictim(PreemptionMode::kSwap);
  EXPECT_FALSE(costs.ProbesSwap());
}

}  // namespace
}  // namespace octavo
