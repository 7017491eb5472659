// Products with 4-bit and 8-bit weights, and their dequantisation, against sums in double of the
// weights as the plain dequantisation gives them.
#include "worker/cuda/kernels/quant_gemm.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "common/checkpoint/dequantize.h"
#include "gmock/gmock.h"
#include "tests/emulation/child_process.h"
#include "tests/emulation/emulation.h"
#include "tests/worker/cuda/bfloat16_testing.h"
#include "tests/worker/cuda/kernels/kernel_testing.h"
#include "tests/worker/cuda/stored_weights_testing.h"
#include "worker/cuda/kernels/dequantize.h"
#include "worker/cuda/quant_pack.h"

namespace octavo::cuda {
namespace {

using testing::HasSubstr;

constexpr DType kStored[] = {DType::kQ4_0, DType::kQ4_1, DType::kQ8_0, DType::kQ5_0,
                             DType::kQ5_1, DType::kQ4_K, DType::kQ5_K};

struct Weights {
  std::vector<std::byte> stored;
  std::vector<float> values;  // [rows, cols]
  // Of each group of 32, what its scale's and minimum's errors are relative to.
  std::vector<float> reach;  // [rows, cols / 32]
  QuantFormat format;
  std::vector<std::byte> packed;
  double relative_error = 0;  // of scales and minima
};

Weights MakeWeights(DType dtype, int64_t rows, int64_t cols) {
  std::mt19937 random(static_cast<uint32_t>(rows + cols));
  Weights weights;
  weights.stored = RandomStored(dtype, rows, cols, random);
  weights.values.resize(static_cast<size_t>(rows * cols));
  for (int64_t r = 0; r < rows; ++r)
    EXPECT_TRUE(DequantizeRow(dtype, weights.stored.data() + r * StorageBytes(dtype, cols), cols,
                              weights.values.data() + r * cols)
                    .ok());
  for (size_t i = 0; i < weights.values.size(); i += kQuantGroup) {
    float most = 0;
    for (size_t j = i; j < i + kQuantGroup; ++j) most = std::max(most, std::abs(weights.values[j]));
    weights.reach.push_back(4 * most);  // scale * code and the minimum may cancel
  }
  const std::vector<WeightView> parts = {{"w", dtype, rows, cols, weights.stored.data()}};
  weights.format = *QuantFormatOf(parts);
  weights.packed.resize(static_cast<size_t>(QuantBytes(weights.format, rows, cols)));
  PackQuantUnits(parts, weights.format, 0, QuantUnits(rows, cols), weights.packed.data());
  weights.relative_error = dtype == DType::kQ4_K || dtype == DType::kQ5_K ? 0x1p-11 : 0;
  return weights;
}

struct Case {
  int32_t rows, in, out;
  QuantGemmPlan plan;
  bool add = false, bias = false;
};

// Empty: the kernel's sums are right.
std::string RunProduct(const Weights& weights, const Case& c, double* worst = nullptr) {
  std::mt19937 random(11);
  const int64_t x_stride = c.in + 8, out_stride = c.out + 3;
  std::vector<uint16_t> x = RandomBFloat16(static_cast<size_t>(c.rows * x_stride), random);
  for (int32_t r = 0; r < c.rows; ++r)
    for (int64_t k = c.in; k < x_stride; ++k) x[static_cast<size_t>(r * x_stride + k)] = 0x7fff;
  const std::vector<float> bias = NormalFloats(static_cast<size_t>(c.out), 1, 2);
  const std::vector<float> before = NormalFloats(static_cast<size_t>(c.rows * out_stride), 1, 3);
  const DeviceArray<uint16_t> device_x(x);
  const DeviceArray<std::byte> device_weights(weights.packed);
  const DeviceArray<float> device_bias(bias), out(before);
  const DeviceArray<float> partials(size_t{1} << 17);
  const DeviceArray<int32_t> arrivals(std::vector<int32_t>(64, 0));
  QuantGemmArgs args;
  args.x = device_x.data();
  args.x_stride = x_stride;
  args.weight = device_weights.data();
  args.format = weights.format;
  args.bias = c.bias ? device_bias.data() : nullptr;
  args.out = out.data();
  args.out_stride = out_stride;
  args.rows = c.rows;
  args.in_features = c.in;
  args.out_features = c.out;
  args.add = c.add;
  const DeviceStream stream;
  const std::string error =
      Finish(stream, LaunchQuantGemm(args, c.plan, {partials.data(), arrivals.data()}, stream));
  if (!error.empty()) return error;
  const std::vector<float> y = out.Get();
  for (const int32_t arrived : arrivals.Get())
    if (arrived != 0) return "arrivals are left";
  for (int32_t r = 0; r < c.rows; ++r)
    for (int64_t o = 0; o < out_stride; ++o) {
      const auto at = static_cast<size_t>(r * out_stride + o);
      if (o >= c.out) {
        if (y[at] != before[at]) return "wrote between rows";
        continue;
      }
      double sum = c.add ? before[at] : 0, magnitude = std::abs(sum), slack = 0;
      if (c.bias) sum += bias[static_cast<size_t>(o)];
      magnitude += std::abs(sum);
      for (int32_t k = 0; k < c.in; ++k) {
        const double factor = FromBf16(x[static_cast<size_t>(r * x_stride + k)]);
        const auto w = static_cast<size_t>(o * c.in + k);
        sum += factor * double{weights.values[w]};
        // With a minimum, a group's terms cancel in its two sums.
        magnitude += std::abs(factor) * double{weights.reach[w / kQuantGroup]};
        slack += std::abs(factor) * double{weights.reach[w / kQuantGroup]};
      }
      const double error = std::abs(y[at] - sum);
      if (worst != nullptr) *worst = std::max(*worst, error / magnitude);
      if (!(error <= magnitude * 0x1p-21 + slack * weights.relative_error))
        return "row " + std::to_string(r) + " column " + std::to_string(o) + " is " +
               std::to_string(y[at]) + ", not " + std::to_string(sum);
    }
  return "";
}

// fp32 sums of some hundred terms, by group; K formats have scales rounded to fp16.
TEST(QuantGemm, EqualsSumsInDoublePrecisionForEveryStoredType) {
  for (const DType dtype : kStored) {
    SCOPED_TRACE(std::string(Info(dtype).name));
    const Weights weights = MakeWeights(dtype, 37, 512);
    for (const auto& [rows, batch_tiles] : {std::pair{1, 1}, {8, 1}, {13, 2}, {32, 4}})
      EXPECT_EQ(RunProduct(weights, {rows, 512, 37, {batch_tiles, 1}}), "") << rows;
  }
}

TEST(QuantGemm, TakesAnyRowsAndColumnsThatAreWholeGroups) {
  for (const DType dtype : {DType::kQ4_1, DType::kQ8_0})
    for (const int32_t in : {32, 96, 576})
      for (const int32_t out : {1, 16, 70}) {
        SCOPED_TRACE(testing::Message() << Info(dtype).name.data() << " " << in << " " << out);
        const Weights weights = MakeWeights(dtype, out, in);
        for (const int32_t rows : {1, 3, 9, 35}) {
          const QuantGemmPlan plan = {rows <= 8 ? 1 : rows <= 16 ? 2 : 4, 1};
          EXPECT_EQ(RunProduct(weights, {rows, in, out, plan, rows % 2 == 1, rows > 2}), "")
              << rows;
        }
      }
}

// Long enough for every ring to come round more than once.
TEST(QuantGemm, ReusesItsRings) {
  constexpr int32_t kIn = 64 * 8 * 8 + 32;
  for (const DType dtype : {DType::kQ4_0, DType::kQ4_1, DType::kQ8_0, DType::kQ5_1}) {
    SCOPED_TRACE(std::string(Info(dtype).name));
    const Weights weights = MakeWeights(dtype, 16, kIn);
    for (const int32_t batch_tiles : {1, 2, 4})
      EXPECT_EQ(RunProduct(weights, {8 * batch_tiles, kIn, 16, {batch_tiles, 1}}), "")
          << batch_tiles;
  }
}

TEST(QuantGemm, SplitsColumnsOverBlocks) {
  constexpr int32_t kIn = 64 * 37;
  const Weights weights = MakeWeights(DType::kQ4_0, 70, kIn);
  for (const auto& [batch_tiles, splits] : {std::pair{1, 2}, {1, 8}, {2, 3}, {4, 5}})
    EXPECT_EQ(
        RunProduct(weights, {8 * batch_tiles - 1, kIn, 70, {batch_tiles, splits}, true, true}), "")
        << batch_tiles << ", " << splits;
}

TEST(QuantGemm, PlansFillTheCardWithinTheWorkspace) {
  constexpr int32_t kSms = 132;
  EXPECT_EQ(PlanQuantGemm(1, 4096, 4096, kSms).splits, 1);   // 128 blocks
  EXPECT_EQ(PlanQuantGemm(16, 4096, 4096, kSms).splits, 2);  // of 64
  EXPECT_EQ(PlanQuantGemm(32, 4096, 4096, kSms).splits, 4);  // of 64, smaller ones
  EXPECT_EQ(PlanQuantGemm(1, 4096, 1024, kSms).splits, 4);   // a rank's share: of 32
  EXPECT_EQ(PlanQuantGemm(8, 4096, 28672, kSms).splits, 1);
  EXPECT_EQ(PlanQuantGemm(1, 576, 576, kSms).splits, 1);  // too short to split
  for (const int32_t rows : {1, 8, 9, 16, 17, 32, 33, 128})
    for (const int32_t out : {16, 576, 1024, 4096, 14336}) {
      const QuantGemmPlan plan = PlanQuantGemm(rows, 8192, out, kSms);
      if (plan.splits == 1) continue;
      const int32_t tile_rows = plan.batch_tiles == 1 ? 32 : 64, batch = 8 * plan.batch_tiles;
      const int64_t blocks =
          int64_t{(rows + batch - 1) / batch} * ((out + tile_rows - 1) / tile_rows);
      EXPECT_LE(blocks * plan.splits * tile_rows * batch, QuantPartialElements(kSms));
      EXPECT_LE(blocks, QuantArrivals(kSms));
    }
}

TEST(QuantGemm, RefusesShapesWithValueAndLimit) {
  const DeviceStream stream;
  const DeviceArray<uint16_t> x(size_t{4096});
  const DeviceArray<std::byte> weight(size_t{4096});
  const DeviceArray<float> out(size_t{64});
  QuantGemmArgs args;
  args.x = x.data();
  args.x_stride = args.in_features = 48;
  args.weight = weight.data();
  args.out = out.data();
  args.out_stride = args.out_features = 16;
  args.rows = 1;
  EXPECT_THAT(std::string(LaunchQuantGemm(args, {}, {}, stream).message()),
              HasSubstr("in_features is 48; it must be a multiple of 32"));
  args.x_stride = args.in_features = 64;
  args.rows = kMaxQuantRows + 1;
  EXPECT_THAT(std::string(LaunchQuantGemm(args, {}, {}, stream).message()),
              HasSubstr("rows is 129; it must be between 0 and 128"));
  args.rows = 1;
  EXPECT_THAT(std::string(LaunchQuantGemm(args, {1, 2}, {}, stream).message()),
              HasSubstr("partials is missing"));
  args.format.bits = 5;
  EXPECT_EQ(LaunchQuantGemm(args, {}, {}, stream).code(), absl::StatusCode::kUnimplemented);
}

// One rounding to bf16, after one of scale * code + min to fp32.
TEST(Dequantize, RoundsEveryStoredTypeToBFloat16) {
  const DeviceStream stream;
  for (const DType dtype : kStored) {
    SCOPED_TRACE(std::string(Info(dtype).name));
    constexpr int64_t kRows = 37, kCols = 512, kStride = 520;
    const Weights weights = MakeWeights(dtype, kRows, kCols);
    const DeviceArray<std::byte> packed(weights.packed);
    const DeviceArray<uint16_t> out(size_t{kRows * kStride});
    DequantizeArgs args = {packed.data(), weights.format, out.data(), kStride, kRows, kCols};
    ASSERT_EQ(Finish(stream, LaunchDequantize(args, stream)), "");
    const std::vector<uint16_t> bits = out.Get();
    for (int64_t r = 0; r < kRows; ++r)
      for (int64_t c = 0; c < kStride; ++c) {
        const uint16_t got = bits[static_cast<size_t>(r * kStride + c)];
        if (c >= kCols) {
          ASSERT_EQ(got, 0xffff) << "wrote between rows";
          continue;
        }
        const auto at = static_cast<size_t>(r * kCols + c);
        const double slack = double{weights.reach[at / kQuantGroup]};
        ASSERT_NEAR(FromBf16(got), weights.values[at],
                    std::abs(double{weights.values[at]}) * 0x1p-8 +
                        slack * (weights.relative_error + 0x1p-23))
            << r << ", " << c;
      }
  }
}

#ifdef OCTAVO_EMULATED_BUILD  // a card has no plants
std::string RunPlanted() {
  const Weights weights = MakeWeights(DType::kQ4_0, 32, 64 * 64);
  return RunProduct(weights, {8, 64 * 64, 32, {1, 1}});
}
std::string RunPlantedSplits() {
  const Weights weights = MakeWeights(DType::kQ4_0, 32, 64 * 32);
  return RunProduct(weights, {8, 64 * 32, 32, {1, 2}});
}

struct Defect {
  const char* name;
  std::string (*run)();
};

TEST(PlantedQuantGemmDefects, AreCaughtByTheRaceBuild) {
  EXPECT_EQ(RunPlanted(), "");
  EXPECT_EQ(RunPlantedSplits(), "");
  if (std::string(OCTAVO_EMULATED_BUILD) != "race")
    GTEST_SKIP() << "warp collectives hide a missing barrier from the other builds";
  const Defect defects[] = {
      {"quant_gemm.ring", RunPlanted},          {"quant_gemm.rings_read", RunPlanted},
      {"quant_gemm.merged", RunPlanted},        {"quant_gemm.partials_written", RunPlantedSplits},
      {"quant_gemm.release", RunPlantedSplits}, {"quant_gemm.acquire", RunPlantedSplits},
      {"quant_gemm.arrived", RunPlantedSplits},
  };
  for (const Defect& defect : defects)
    EXPECT_FALSE(emulation::RunPlanted(defect.name, {0, 1, 2, 3, 4, 5}, defect.run).empty())
        << defect.name;
}
#endif

}  // namespace
}  // namespace octavo::cuda
