#include "tools/simulate/cost_model.h"

#include "gtest/gtest.h"

namespace octavo::simulate {
namespace {

// 1 GB/s, 1 GFLOP/s and round shapes, so that every figure below can be checked by hand.
DeviceSpec Slow() {
  return {.name = "slow",
          .memory_gib = 1,
          .memory_gb_per_s = 1,
          .matmul_tflops = 1e-3,
          .attention_tflops = 5e-4,
          .step_overhead_us = 100,
          .link_gb_per_s = 0.1,
          .link_both_gb_per_s = 0.15,
          .all_reduce_us = 10,
          .all_reduce_gb_per_s = 1};
}

// Layer weights 2 x (100 x 10 x 8 + 100 x 200 x 2) = 96,000; head 1,000 x 100 = 100,000.
ModelSpec Small() {
  return {.name = "small",
          .layers = 2,
          .hidden = 100,
          .heads = 2,
          .kv_heads = 2,
          .head_dim = 10,
          .ffn = 200,
          .vocab = 1000,
          .gated_ffn = false};
}

CacheGeometry Geometry(int32_t cards = 1) {
  KvShape shape = Small().kv_shape();
  shape.num_kv_heads /= cards;
  return *CacheGeometry::Create(shape, DType::kBF16, 16);
}

SeqSlice Slice(int32_t context, int32_t tokens, bool sample) {
  SeqSlice slice;
  slice.context_length = context;
  slice.num_tokens = tokens;
  slice.sample = sample;
  return slice;
}

TEST(WorkOf, CountsTokensPairsAndCacheReads) {
  StepPlan plan;
  plan.slices = {Slice(100, 1, true), Slice(32, 4, false)};
  plan.copies = {{1, 2}};
  plan.swap_outs = {{3, 1}, {4, 2}};
  plan.swap_ins = {{5, 3}};
  const StepWork work = WorkOf(plan);
  EXPECT_EQ(work.tokens, 5);
  EXPECT_EQ(work.samples, 1);
  EXPECT_EQ(work.kv_tokens, 101 + 36);
  // The decode sees 101 positions; the chunk 33 + 34 + 35 + 36.
  EXPECT_EQ(work.attended_pairs, 101 + 138);
  EXPECT_EQ(work.copied_blocks, 1);
  EXPECT_EQ(work.swapped_out, 2);
  EXPECT_EQ(work.swapped_in, 1);
}

TEST(CostModel, ADecodeStepReadsWeightsAndCache) {
  const CostModel costs(Slow(), Small(), Geometry(), 1);
  // Weights 2 x (96,000 + 100,000) = 392,000 bytes; 1,000 tokens x 2 x 2 x 2 x 10 x 2 = 160 bytes.
  const StepCost cost = costs.Cost({.tokens = 1, .samples = 0, .kv_tokens = 1000});
  EXPECT_NEAR(cost.compute_seconds, (392'000 + 160'000) / 1e9 + 100e-6, 1e-12);
  EXPECT_EQ(cost.swap_out_seconds, 0);
}

TEST(CostModel, APrefillStepIsBoundByArithmetic) {
  const CostModel costs(Slow(), Small(), Geometry(), 1);
  const StepCost cost =
      costs.Cost({.tokens = 100, .samples = 1, .kv_tokens = 100, .attended_pairs = 5050});
  const double products = (100 * 2 * 96'000.0 + 2 * 100'000) / 1e9;
  const double attention = 5050 * 4.0 * 2 * 2 * 10 / 0.5e9;
  EXPECT_NEAR(cost.compute_seconds, products + attention + 100e-6, 1e-12);
}

TEST(CostModel, CopiesInsideTheDeviceReadAndWrite) {
  const CostModel costs(Slow(), Small(), Geometry(), 1);
  const double without = costs.Cost({.tokens = 1, .kv_tokens = 1}).compute_seconds;
  const double with = costs.Cost({.tokens = 1, .kv_tokens = 1, .copied_blocks = 3}).compute_seconds;
  EXPECT_NEAR(with - without, 3 * 2 * 16 * 160 / 1e9, 1e-12);
}

TEST(CostModel, ACopyTakesItsBytesOverTheLink) {
  const CostModel costs(Slow(), Small(), Geometry(), 1);
  const StepCost cost = costs.Cost({.tokens = 1, .kv_tokens = 1, .swapped_out = 10});
  EXPECT_NEAR(cost.swap_out_seconds, 10 * 2560 / 0.1e9, 1e-12);
  EXPECT_EQ(cost.swap_in_seconds, 0);
  EXPECT_GT(cost.compute_seconds, 0);
  EXPECT_EQ(costs.Cost({.swapped_out = 10}).compute_seconds, 0);
}

TEST(CostModel, BothWaysShareTheLink) {
  const CostModel costs(Slow(), Small(), Geometry(), 1);
  const StepCost even =
      costs.Cost({.tokens = 1, .kv_tokens = 1, .swapped_out = 100, .swapped_in = 100});
  EXPECT_NEAR(even.swap_out_seconds, 200 * 2560 / 0.15e9, 1e-12);
  EXPECT_NEAR(even.swap_in_seconds, 200 * 2560 / 0.15e9, 1e-12);
  const StepCost uneven =
      costs.Cost({.tokens = 1, .kv_tokens = 1, .swapped_out = 100, .swapped_in = 1});
  EXPECT_NEAR(uneven.swap_out_seconds, 100 * 2560 / 0.1e9, 1e-12);
}

TEST(CostModel, CardsShareTheWorkAndPayForAllReduces) {
  const CostModel costs(Slow(), Small(), Geometry(2), 2);
  const StepCost cost = costs.Cost({.tokens = 1, .kv_tokens = 1000});
  const double memory = (392'000 + 160'000) / 2 / 1e9;
  const double all_reduces = 4 * (10e-6 + 2.0 * 100 * 2 / 2 / 1e9);
  EXPECT_NEAR(cost.compute_seconds, memory + 100e-6 + all_reduces, 1e-12);
}

// The roofline table of the kernels' design: H200 at 4.3 TB/s, batch 64 at 1k context, 5.49 ms.
TEST(CostModel, AgreesWithTheRooflineOfAnH200) {
  DeviceSpec h200 = *DevicePreset("h200");
  h200.step_overhead_us = 0;
  const ModelSpec llama = *ModelPreset("llama-3-8b");
  const CostModel costs(h200, llama, *CacheGeometry::Create(llama.kv_shape(), DType::kBF16, 16), 1);
  const StepCost cost = costs.Cost(
      {.tokens = 64, .samples = 64, .kv_tokens = 64 * 1024, .attended_pairs = 64 * 1024});
  EXPECT_NEAR(cost.compute_seconds, 5.49e-3, 0.05e-3);
}

}  // namespace
}  // namespace octavo::simulate
