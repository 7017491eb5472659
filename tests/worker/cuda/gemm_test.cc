#include "worker/cuda/gemm.h"

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/emulation/device_array.h"
#include "tests/emulation/matmul_algorithms.h"
#include "tests/worker/cuda/bfloat16_testing.h"
#include "tests/worker/cuda/e4m3_testing.h"
#include "worker/cuda/packed_weights.h"

namespace octavo::cuda {
namespace {

using emulation::DeviceArray;
using emulation::DeviceStream;
using ::testing::HasSubstr;

struct Case {
  int64_t rows, in, out;
  bool add = false, bias = false;
  DType type = DType::kBF16;
};

double Wide(DType type, uint16_t bits) {
  return type == DType::kF16 ? FromFp16(bits) : double{FromBFloat16(bits)};
}

// Sums of K exact products of bf16 or fp16 in fp32: what rounding may do is K ulps of the sum of
// magnitudes.
void ExpectMatchesDoubles(Gemm& gemm, const Case& c) {
  SCOPED_TRACE(::testing::Message() << c.rows << " x " << c.in << " x " << c.out);
  std::mt19937 random(7);
  const int64_t stride = PaddedCols(c.in), out_stride = c.out + 3;
  const auto random_halves = c.type == DType::kF16 ? RandomFp16 : RandomBFloat16;
  const auto x = random_halves(static_cast<size_t>(c.rows * stride), random);
  const auto weight = random_halves(static_cast<size_t>(c.out * stride), random);
  std::vector<float> bias(static_cast<size_t>(c.out)),
      before(static_cast<size_t>(c.rows * out_stride));
  std::normal_distribution<float> normal;
  for (float& value : bias) value = normal(random);
  for (float& value : before) value = normal(random);
  const DeviceArray<uint16_t> device_x(x), device_weight(weight);
  const DeviceArray<float> device_bias(bias), out(before);

  GemmArgs args;
  args.x = device_x.data();
  args.x_stride = stride;
  args.weight = device_weight.data();
  args.weight_stride = stride;
  args.bias = c.bias ? device_bias.data() : nullptr;
  args.out = out.data();
  args.out_stride = out_stride;
  args.rows = c.rows;
  args.in_features = c.in;
  args.out_features = c.out;
  args.add = c.add;
  args.type = c.type;
  const DeviceStream stream;
  const absl::Status status = gemm.Run(args, stream);
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(stream.Synchronize(), "");

  const std::vector<float> y = out.Get();
  for (int64_t r = 0; r < c.rows; ++r) {
    for (int64_t o = 0; o < c.out; ++o) {
      double sum = c.bias ? bias[static_cast<size_t>(o)] : 0, magnitude = std::abs(sum);
      const auto at = static_cast<size_t>(r * out_stride + o);
      if (c.add) sum += before[at];
      magnitude += std::abs(double{before[at]});
      for (int64_t k = 0; k < c.in; ++k) {
        const double product = Wide(c.type, x[static_cast<size_t>(r * stride + k)]) *
                               Wide(c.type, weight[static_cast<size_t>(o * stride + k)]);
        sum += product;
        magnitude += std::abs(product);
      }
      ASSERT_NEAR(y[at], sum, magnitude * 0x1p-23 * 32) << "row " << r << " column " << o;
    }
    for (int64_t o = c.out; o < out_stride; ++o) {
      const auto at = static_cast<size_t>(r * out_stride + o);
      ASSERT_EQ(y[at], before[at]) << "between rows";
    }
  }
}

TEST(Gemm, EqualsSumsInDoublePrecision) {
  const auto gemm = Gemm::Create();
  ASSERT_TRUE(gemm.ok()) << gemm.status();
  for (const Case& c : {Case{1, 64, 48}, Case{3, 100, 17}, Case{9, 576, 33}})
    for (const bool add : {false, true})
      for (const bool bias : {false, true})
        for (const DType type : {DType::kBF16, DType::kF16})
          ExpectMatchesDoubles(**gemm, {c.rows, c.in, c.out, add, bias, type});
}

TEST(Gemm, AsksForAnAlgorithmOncePerShape) {
  const auto gemm = Gemm::Create();
  ASSERT_TRUE(gemm.ok()) << gemm.status();
  for (int i = 0; i < 3; ++i) ExpectMatchesDoubles(**gemm, {2, 16, 8});
  EXPECT_EQ((*gemm)->num_cached(), 1u);
  ExpectMatchesDoubles(**gemm, {3, 16, 8});
  EXPECT_EQ((*gemm)->num_cached(), 2u);
}

// What is timed goes elsewhere than to out, and not while a step is recorded.
TEST(Gemm, TimesAlgorithmsWithoutTouchingItsOperands) {
  emulation::MatmulAlgorithms() = 3;
  const auto gemm = Gemm::Create();
  ASSERT_TRUE(gemm.ok()) << gemm.status();
  ExpectMatchesDoubles(**gemm, {3, 64, 17, /*add=*/true, /*bias=*/true});
  ExpectMatchesDoubles(**gemm, {Gemm::kMaxTimedRows + 1, 16, 8, /*add=*/true});
  const DeviceStream stream;
  const DeviceArray<uint16_t> x(std::vector<uint16_t>(64, 0x3f80));
  const DeviceArray<float> out(std::vector<float>(64, 1));
  GemmArgs args;
  args.x = args.weight = x.data();
  args.out = out.data();
  args.x_stride = args.weight_stride = args.out_stride = 8;
  args.rows = args.in_features = args.out_features = 8;
  args.add = true;
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  const absl::Status recorded = (*gemm)->Run(args, stream);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  cudaGraphDestroy(graph);
  EXPECT_TRUE(recorded.ok()) << recorded;
  emulation::MatmulAlgorithms() = 1;
}

TEST(Gemm, RefusesShapesThatContradictTheirStrides) {
  const auto gemm = Gemm::Create();
  ASSERT_TRUE(gemm.ok()) << gemm.status();
  GemmArgs args;
  args.rows = 1;
  args.in_features = 64;
  args.out_features = 8;
  args.x_stride = 63;
  args.weight_stride = 64;
  args.out_stride = 8;
  const absl::Status status = (*gemm)->Run(args, nullptr);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("stride of x is 63; its rows have 64"));
}

TEST(Gemm, RefusesWhatProductsOfE4m3DoNotTake) {
  const auto gemm = Gemm::Create();
  ASSERT_TRUE(gemm.ok()) << gemm.status();
  const DeviceArray<float> memory(64);
  GemmArgs good;
  good.type = DType::kF8E4M3;
  good.x = good.weight = memory.data();
  good.out = memory.data();
  good.rows = 1;
  good.x_stride = good.weight_stride = good.in_features = good.out_stride = good.out_features = 16;
  const auto error = [&](const GemmArgs& args) {
    return std::string((*gemm)->Run(args, nullptr).message());
  };
  GemmArgs args = good;
  args.in_features = 8;
  EXPECT_THAT(error(args), HasSubstr("in_features is 8; e4m3 needs a multiple of 16"));
  args = good;
  args.out_stride = args.out_features = 24;
  EXPECT_THAT(error(args), HasSubstr("out_features is 24; e4m3 needs"));
  args = good;
  args.x = reinterpret_cast<const std::byte*>(memory.data()) + 8;
  EXPECT_THAT(error(args), HasSubstr("aligned to 8 bytes; it must be to 16"));
  args = good;
  args.bias = memory.data();
  EXPECT_THAT(error(args), HasSubstr("no fp32 bias"));
  args = good;
  args.x_scales = memory.data();
  EXPECT_THAT(error(args), HasSubstr("the scales of one operand only"));
  args.type = DType::kF16;
  EXPECT_THAT(error(args), HasSubstr("not with fp16"));
  args = good;
  args.type = DType::kI8;
  EXPECT_THAT(error(args), HasSubstr("no products of int8"));
}

}  // namespace
}  // namespace octavo::cuda
