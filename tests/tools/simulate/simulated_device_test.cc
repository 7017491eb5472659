#include "tools/simulate/simulated_device.h"

#include "gtest/gtest.h"

namespace octavo::simulate {
namespace {

// A step of one token takes 10 ms, copying a block of 2,560 bytes 1 ms, each way or both.
CostModel Costs() {
  const ModelSpec model{.name = "small",
                        .layers = 2,
                        .hidden = 1,
                        .heads = 2,
                        .kv_heads = 2,
                        .head_dim = 10,
                        .ffn = 1,
                        .vocab = 1};
  const DeviceSpec device{.name = "slow",
                          .memory_gib = 1,
                          .memory_gb_per_s = 1e9,
                          .matmul_tflops = 1e9,
                          .attention_tflops = 1e9,
                          .step_overhead_us = 10'000,
                          .link_gb_per_s = 2560e3 / 1e9,
                          .link_both_gb_per_s = 2 * 2560e3 / 1e9};
  return CostModel(device, model, *CacheGeometry::Create(model.kv_shape(), DType::kBF16, 16), 1);
}

StepPlan Plan(StepId step, int outs, int ins, bool computes = true) {
  StepPlan plan{.epoch = 1, .step = step};
  for (int i = 1; i <= outs; ++i) plan.swap_outs.push_back({i, i});
  for (int i = 1; i <= ins; ++i) plan.swap_ins.push_back({100 + i, 100 + i});
  if (!computes) return plan;
  SeqSlice& slice = plan.slices.emplace_back();
  slice.sequence = 7;
  slice.num_tokens = 1;
  slice.sample = true;
  return plan;
}

TEST(SimulatedDevice, ComputesOneStepAfterTheOther) {
  SimulatedDevice device(Costs(), 100);
  device.Submit(Plan(1, 0, 0), 0);
  device.Submit(Plan(2, 0, 0), 0.004);
  EXPECT_NEAR(device.next_answer(), 0.010, 1e-6);
  const StepResult result = device.TakeAnswer();
  EXPECT_EQ(result.step, 1u);
  ASSERT_EQ(result.samples.size(), 1u);
  EXPECT_EQ(result.samples[0].sequence, 7u);
  EXPECT_NEAR(result.compute_seconds, 0.010, 1e-6);
  EXPECT_NEAR(device.next_answer(), 0.020, 1e-6);
  EXPECT_EQ(device.in_flight(), 1u);
}

TEST(SimulatedDevice, SwapOutsDelayTheAnswerButNotTheNextStep) {
  SimulatedDevice device(Costs(), 100);
  device.Submit(Plan(1, 15, 0), 0);
  device.Submit(Plan(2, 0, 0), 0);
  EXPECT_NEAR(device.next_answer(), 0.015, 1e-6);
  const StepResult first = device.TakeAnswer();
  EXPECT_NEAR(first.swap_out_seconds, 0.015, 1e-6);
  EXPECT_NEAR(first.compute_seconds, 0.010, 1e-6);
  EXPECT_NEAR(device.next_answer(), 0.020, 1e-6);
}

TEST(SimulatedDevice, SwapOutsThatFitBesideTheComputeCostNothing) {
  SimulatedDevice device(Costs(), 100);
  device.Submit(Plan(1, 9, 0), 0);
  EXPECT_NEAR(device.next_answer(), 0.010, 1e-6);
}

TEST(SimulatedDevice, SwapInsBeginWhenTheirPlanArrives) {
  SimulatedDevice device(Costs(), 100);
  device.Submit(Plan(1, 0, 0), 0);
  device.Submit(Plan(2, 0, 12), 0.001);
  EXPECT_NEAR(device.next_answer(), 0.010, 1e-6);
  device.TakeAnswer();
  // Copied in from 1 to 13 ms, computed from then on.
  EXPECT_NEAR(device.next_answer(), 0.023, 1e-6);
  EXPECT_NEAR(device.TakeAnswer().swap_in_seconds, 0.012, 1e-6);
}

TEST(SimulatedDevice, APlanOfCopiesAloneTakesTheirTime) {
  SimulatedDevice device(Costs(), 100);
  device.Submit(Plan(1, 3, 0, /*computes=*/false), 1);
  EXPECT_NEAR(device.next_answer(), 1.003, 1e-6);
  EXPECT_EQ(device.TakeAnswer().compute_seconds, 0);
}

TEST(SimulatedDevice, AnswersComeInOrder) {
  SimulatedDevice device(Costs(), 100);
  device.Submit(Plan(1, 50, 0), 0);
  device.Submit(Plan(2, 0, 0), 0);
  device.TakeAnswer();
  EXPECT_NEAR(device.next_answer(), 0.050, 1e-6);
}

}  // namespace
}  // namespace octavo::simulate
