// Kernels that go over rows, against the definitions in double.
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "tests/worker/cuda/kernels/kernel_testing.h"
#include "worker/cuda/kernels/embedding.h"
#include "worker/cuda/kernels/gate.h"
#include "worker/cuda/kernels/norm.h"
#include "worker/cuda/kernels/pointwise.h"

namespace octavo::cuda {
namespace {

using testing::HasSubstr;

constexpr float kEps = 1e-5f;
// Half a unit of bf16's last place, and a little for the fp32 before it.
constexpr double kBf16Error = 0x1p-8 + 1e-5;
constexpr double kFp32Error = 2e-6;

// Columns and, beyond them, the stride: whole vectors, odd widths, rows that are not aligned.
struct RowShape {
  int32_t rows, cols;
  int64_t stride;
};
const RowShape kShapes[] = {{1, 1, 1},     {3, 7, 9},       {1, 8, 8},       {2, 576, 576},
                            {3, 577, 600}, {2, 1000, 1003}, {1, 4096, 4096}, {2, 4104, 4104}};

double InverseRms(const float* x, int32_t cols) {
  double squares = 0;
  for (int32_t c = 0; c < cols; ++c) squares += double{x[c]} * double{x[c]};
  return 1 / std::sqrt(squares / cols + double{kEps});
}

TEST(RmsNorm, MatchesTheDefinitionOfGatheredRows) {
  const DeviceStream stream;
  for (const RowShape& shape : kShapes)
    for (const bool gathered : {false, true}) {
      SCOPED_TRACE(testing::Message() << shape.rows << " x " << shape.cols << " stride "
                                      << shape.stride << (gathered ? " gathered" : ""));
      const int32_t source_rows = shape.rows + 2;
      const std::vector<float> x =
          NormalFloats(static_cast<size_t>(source_rows * shape.stride), 3, 1);
      const std::vector<float> weight = NormalFloats(static_cast<size_t>(shape.cols), 1, 2);
      std::vector<int32_t> ids(static_cast<size_t>(shape.rows));
      for (size_t r = 0; r < ids.size(); ++r)
        ids[r] = gathered ? source_rows - 1 - static_cast<int32_t>(r) : static_cast<int32_t>(r);
      const DeviceArray<float> device_x(x), device_weight(weight);
      const DeviceArray<int32_t> device_ids(ids);
      const DeviceArray<uint16_t> out(static_cast<size_t>(shape.rows * shape.stride));
      RmsNormArgs args;
      args.x = device_x.data();
      args.x_stride = shape.stride;
      args.row_ids = gathered ? device_ids.data() : nullptr;
      args.weight = device_weight.data();
      args.eps = kEps;
      args.out = out.data();
      args.out_stride = shape.stride;
      args.rows = shape.rows;
      args.cols = shape.cols;
      ASSERT_EQ(Finish(stream, LaunchRmsNorm(args, stream)), "");
      const std::vector<uint16_t> normed = out.Get();
      for (int32_t r = 0; r < shape.rows; ++r) {
        const float* row = x.data() + ids[static_cast<size_t>(r)] * shape.stride;
        const double scale = InverseRms(row, shape.cols);
        for (int32_t c = 0; c < shape.cols; ++c) {
          const double expected = double{row[c]} * scale * double{weight[static_cast<size_t>(c)]};
          ASSERT_NEAR(FromBf16(normed[static_cast<size_t>(r * shape.stride + c)]), expected,
                      std::abs(expected) * kBf16Error + 1e-30)
              << r << ", " << c;
        }
      }
    }
}

TEST(RmsNorm, OnlyRoundsWithoutAWeight) {
  const DeviceStream stream;
  // Ties to even, a subnormal number, infinities.
  const std::vector<float> x = {
      1.00390625f, 1.01171875f, -1.00390625f, 1e-40f, -std::numeric_limits<float>::infinity(),
      3.0f,        0.0f,        1e38f};
  const std::vector<float> rounded = {
      1.0f, 1.015625f, -1.0f,           FromBf16(0x0001), -std::numeric_limits<float>::infinity(),
      3.0f, 0.0f,      FromBf16(0x7e96)};
  const DeviceArray<float> device_x(x);
  const DeviceArray<uint16_t> out(8);
  RmsNormArgs args;
  args.x = device_x.data();
  args.x_stride = 8;
  args.out = out.data();
  args.out_stride = 8;
  args.rows = 1;
  args.cols = 8;
  ASSERT_EQ(Finish(stream, LaunchRmsNorm(args, stream)), "");
  const std::vector<uint16_t> bits = out.Get();
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(FromBf16(bits[i]), rounded[i]) << i;
}

TEST(AddNormed, AddsTheNormedRow) {
  const DeviceStream stream;
  for (const RowShape& shape : kShapes) {
    const auto count = static_cast<size_t>(shape.rows * shape.stride);
    const std::vector<float> x = NormalFloats(count, 3, 3), before = NormalFloats(count, 1, 4);
    const std::vector<float> weight = NormalFloats(static_cast<size_t>(shape.cols), 1, 5);
    const DeviceArray<float> device_x(x), device_weight(weight), out(before);
    AddNormedArgs args;
    args.x = device_x.data();
    args.x_stride = shape.stride;
    args.weight = device_weight.data();
    args.eps = kEps;
    args.out = out.data();
    args.out_stride = shape.stride;
    args.rows = shape.rows;
    args.cols = shape.cols;
    ASSERT_EQ(Finish(stream, LaunchAddNormed(args, stream)), "");
    const std::vector<float> after = out.Get();
    for (int32_t r = 0; r < shape.rows; ++r) {
      const double scale = InverseRms(x.data() + r * shape.stride, shape.cols);
      for (int64_t c = 0; c < shape.stride; ++c) {
        const auto at = static_cast<size_t>(r * shape.stride + c);
        if (c >= shape.cols) {
          ASSERT_EQ(after[at], before[at]);
          continue;
        }
        const double added = double{x[at]} * scale * double{weight[static_cast<size_t>(c)]};
        ASSERT_NEAR(after[at], double{before[at]} + added,
                    (std::abs(added) + std::abs(double{before[at]})) * kFp32Error);
      }
    }
  }
}

TEST(AddNormed, NormsTheSumForTheNextProduct) {
  const DeviceStream stream;
  for (const RowShape& shape : kShapes) {
    const auto count = static_cast<size_t>(shape.rows * shape.stride);
    const std::vector<float> x = NormalFloats(count, 3, 6), before = NormalFloats(count, 1, 7);
    const std::vector<float> weight = NormalFloats(static_cast<size_t>(shape.cols), 1, 8),
                             next = NormalFloats(static_cast<size_t>(shape.cols), 1, 9);
    const DeviceArray<float> device_x(x), device_weight(weight), device_next(next), out(before),
        alone(before);
    const DeviceArray<uint16_t> next_out(count), next_alone(count);
    AddNormedArgs args;
    args.x = device_x.data();
    args.x_stride = shape.stride;
    args.weight = device_weight.data();
    args.eps = kEps;
    args.out = alone.data();
    args.out_stride = shape.stride;
    args.rows = shape.rows;
    args.cols = shape.cols;
    ASSERT_EQ(Finish(stream, LaunchAddNormed(args, stream)), "");
    args.out = out.data();
    args.next_weight = device_next.data();
    args.next_eps = kEps;
    args.next_out = next_out.data();
    args.next_stride = shape.stride;
    ASSERT_EQ(Finish(stream, LaunchAddNormed(args, stream)), "");
    const std::vector<float> sums = out.Get();
    ASSERT_EQ(sums, alone.Get());
    const std::vector<uint16_t> normed = next_out.Get();
    for (int32_t r = 0; r < shape.rows; ++r) {
      const double scale = InverseRms(sums.data() + r * shape.stride, shape.cols);
      for (int32_t c = 0; c < shape.cols; ++c) {
        const auto at = static_cast<size_t>(r * shape.stride + c);
        const double expected = double{sums[at]} * scale * double{next[static_cast<size_t>(c)]};
        ASSERT_NEAR(FromBf16(normed[at]), expected, std::abs(expected) * kBf16Error + 1e-30)
            << r << ", " << c;
      }
    }
  }
}

double Activate(GateActivation activation, double x) {
  if (activation == GateActivation::kSilu) return x / (1 + std::exp(-x));
  return x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))) / 2;
}

TEST(Gate, MultipliesActivatedGateAndUp) {
  const DeviceStream stream;
  for (const RowShape& shape : kShapes)
    for (const auto activation : {GateActivation::kSilu, GateActivation::kGeluTanh}) {
      const int64_t in_stride = 2 * shape.stride;
      std::vector<float> gate_up = NormalFloats(static_cast<size_t>(shape.rows * in_stride), 4, 6);
      gate_up[0] = -120.0f;
      const DeviceArray<float> in(gate_up);
      const auto count = static_cast<size_t>(shape.rows * shape.stride);
      const DeviceArray<float> out(count);
      const DeviceArray<uint16_t> out_bf16(count);
      GateArgs args;
      args.gate_up = in.data();
      args.gate_up_stride = in_stride;
      args.activation = activation;
      args.out = out.data();
      args.out_stride = shape.stride;
      args.rounded = out_bf16.data();
      args.rounded_stride = shape.stride;
      args.rows = shape.rows;
      args.cols = shape.cols;
      ASSERT_EQ(Finish(stream, LaunchGate(args, stream)), "");
      const std::vector<float> full = out.Get();
      const std::vector<uint16_t> half = out_bf16.Get();
      for (int32_t r = 0; r < shape.rows; ++r)
        for (int32_t c = 0; c < shape.cols; ++c) {
          const float* row = gate_up.data() + r * in_stride;
          const double expected =
              Activate(activation, double{row[c]}) * double{row[shape.cols + c]};
          const auto at = static_cast<size_t>(r * shape.stride + c);
          // GELU's tanh form cancels below -2: an absolute error of its argument's size.
          ASSERT_NEAR(full[at], expected, std::abs(expected) * 2e-5 + 1e-6) << row[c];
          ASSERT_NEAR(FromBf16(half[at]), expected,
                      std::abs(expected) * (kBf16Error + 2e-5) + 1e-6);
        }
    }
}

TEST(Pointwise, CapsAndAddsInPlace) {
  const DeviceStream stream;
  for (const RowShape& shape : kShapes) {
    const auto count = static_cast<size_t>(shape.rows * shape.stride);
    std::vector<float> before = NormalFloats(count, 40, 7);
    before[0] = -std::numeric_limits<float>::infinity();
    const std::vector<float> bias = NormalFloats(static_cast<size_t>(shape.cols), 1, 8);
    const DeviceArray<float> x(before), y(before), device_bias(bias);
    ASSERT_EQ(Finish(stream, LaunchSoftcap({x.data(), shape.stride, 30.0f, shape.rows, shape.cols},
                                           stream)),
              "");
    ASSERT_EQ(Finish(stream, LaunchAddBias({y.data(), shape.stride, device_bias.data(), shape.rows,
                                            shape.cols},
                                           stream)),
              "");
    const std::vector<float> capped = x.Get(), added = y.Get();
    for (int32_t r = 0; r < shape.rows; ++r)
      for (int64_t c = 0; c < shape.stride; ++c) {
        const auto at = static_cast<size_t>(r * shape.stride + c);
        if (c >= shape.cols) {
          ASSERT_EQ(capped[at], before[at]);
          ASSERT_EQ(added[at], before[at]);
          continue;
        }
        ASSERT_NEAR(capped[at], 30 * std::tanh(double{before[at]} / 30), 1e-5);
        ASSERT_EQ(added[at], before[at] + bias[static_cast<size_t>(c)]);
      }
  }
}

TEST(Embedding, GathersScaledRows) {
  const DeviceStream stream;
  constexpr int32_t kVocabulary = 11;
  for (const RowShape& shape : kShapes) {
    std::vector<uint16_t> table(static_cast<size_t>(kVocabulary * shape.stride));
    std::mt19937_64 random(9);
    for (uint16_t& value : table) value = static_cast<uint16_t>(0x3f00 + random() % 0x100);
    const std::vector<int32_t> ids = {10, 0, 10};
    const DeviceArray<uint16_t> device_table(table);
    const DeviceArray<int32_t> device_ids(ids);
    const DeviceArray<float> out(static_cast<size_t>(shape.rows * shape.stride));
    EmbeddingArgs args;
    args.table = device_table.data();
    args.table_stride = shape.stride;
    args.table_rows = args.vocabulary = kVocabulary;
    args.token_ids = device_ids.data();
    args.scale = 1.5f;
    args.out = out.data();
    args.out_stride = shape.stride;
    args.rows = shape.rows;
    args.cols = shape.cols;
    ASSERT_EQ(Finish(stream, LaunchEmbedding(args, stream)), "");
    const std::vector<float> rows = out.Get();
    for (int32_t r = 0; r < shape.rows; ++r)
      for (int32_t c = 0; c < shape.cols; ++c)
        ASSERT_EQ(
            rows[static_cast<size_t>(r * shape.stride + c)],
            1.5f * FromBf16(
                       table[static_cast<size_t>(ids[static_cast<size_t>(r)] * shape.stride + c)]));
  }
}

TEST(Embedding, GivesNanForIdsOutsideTheVocabulary) {
  const DeviceStream stream;
  const DeviceArray<uint16_t> table(std::vector<uint16_t>(2 * 8, 0x3f80));
  const DeviceArray<int32_t> ids(std::vector<int32_t>{1, 2, -1});
  const DeviceArray<float> out(24);
  EmbeddingArgs args = {table.data(), 8, 2, 0, 2, ids.data(), 1.0f, out.data(), 8, 3, 8};
  ASSERT_EQ(Finish(stream, LaunchEmbedding(args, stream)), "");
  const std::vector<float> rows = out.Get();
  for (size_t i = 0; i < 24; ++i) EXPECT_EQ(std::isnan(rows[i]), i >= 8) << i;
}

TEST(Embedding, GivesZerosForTokensOfOtherRanks) {
  const DeviceStream stream;
  const DeviceArray<uint16_t> table(std::vector<uint16_t>(2 * 8, 0x3f80));  // of tokens 3 and 4
  const DeviceArray<int32_t> ids(std::vector<int32_t>{3, 2, 4, 5, 6});
  const DeviceArray<float> out(40);
  EmbeddingArgs args = {table.data(), 8, 2, 3, 6, ids.data(), 2.0f, out.data(), 8, 5, 8};
  ASSERT_EQ(Finish(stream, LaunchEmbedding(args, stream)), "");
  const std::vector<float> rows = out.Get();
  for (size_t i = 0; i < 40; ++i) {
    const size_t row = i / 8;
    if (row == 4) {
      EXPECT_TRUE(std::isnan(rows[i])) << i;
    } else {
      EXPECT_EQ(rows[i], row == 0 || row == 2 ? 2.0f : 0.0f) << i;
    }
  }
  args.vocabulary = 4;
  EXPECT_THAT(std::string(LaunchEmbedding(args, stream).message()), HasSubstr("first token is 3"));
}

TEST(Embedding, IsFedWhatTheStepBeforeSampled) {
  const DeviceStream stream;
  std::vector<uint16_t> rows_of_one_to_four;
  for (const uint16_t value : {0x3f80, 0x4000, 0x4040, 0x4080})
    rows_of_one_to_four.insert(rows_of_one_to_four.end(), 8, value);
  const DeviceArray<uint16_t> table(rows_of_one_to_four);
  const DeviceArray<int32_t> ids(std::vector<int32_t>{-2, 0, -1, -3});
  const DeviceArray<int32_t> sampled(std::vector<int32_t>{3, 2});
  const DeviceArray<float> out(32);
  EmbeddingArgs args = {table.data(),   8, 4, 0, 4, ids.data(), 1.0f, out.data(), 8, 4, 8,
                        sampled.data(), 2};
  ASSERT_EQ(Finish(stream, LaunchEmbedding(args, stream)), "");
  const std::vector<float> rows = out.Get();
  EXPECT_EQ(rows[0], 3.0f);
  EXPECT_EQ(rows[8], 1.0f);
  EXPECT_EQ(rows[16], 4.0f);
  EXPECT_TRUE(std::isnan(rows[24]));  // two were sampled
}

TEST(RowKernels, RefuseShapesWithValueAndLimit) {
  const DeviceStream stream;
  const DeviceArray<float> x(64);
  const DeviceArray<uint16_t> out(64);
  RmsNormArgs norm;
  norm.x = x.data();
  norm.out = out.data();
  norm.x_stride = norm.out_stride = 7;
  norm.rows = 1;
  norm.cols = 8;
  absl::Status status = LaunchRmsNorm(norm, stream);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the stride of x is 7"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("at least 8"));
  norm.x_stride = norm.out_stride = 8;
  norm.x = nullptr;
  EXPECT_THAT(std::string(LaunchRmsNorm(norm, stream).message()), HasSubstr("x is missing"));

  SoftcapArgs cap = {x.data(), 8, 0.0f, 1, 8};
  EXPECT_THAT(std::string(LaunchSoftcap(cap, stream).message()), HasSubstr("cap is 0"));
  cap.cap = 1;
  cap.rows = 70'000;
  EXPECT_THAT(std::string(LaunchSoftcap(cap, stream).message()),
              HasSubstr("rows is 70000; it must be between 0 and 65535"));
  cap.rows = 0;
  EXPECT_EQ(LaunchSoftcap(cap, stream), absl::OkStatus());

  GateArgs gate;
  gate.gate_up = x.data();
  gate.gate_up_stride = 16;
  gate.rows = 1;
  gate.cols = 8;
  EXPECT_THAT(std::string(LaunchGate(gate, stream).message()), HasSubstr("out is missing"));
}

}  // namespace
}  // namespace octavo::cuda
