// Rows that kernels leave for products of fp16 and e4m3, against the definitions in double.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "tests/worker/cuda/e4m3_testing.h"
#include "tests/worker/cuda/kernels/kernel_testing.h"
#include "worker/cuda/kernels/embedding.h"
#include "worker/cuda/kernels/gate.h"
#include "worker/cuda/kernels/norm.h"
#include "worker/cuda/kernels/pointwise.h"

namespace octavo::cuda {
namespace {

using testing::HasSubstr;

constexpr float kEps = 1e-5f;
constexpr double kFp32Error = 1e-5;  // of a norm or a gate before it is rounded
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Columns and, beyond them, the stride: whole vectors, odd widths, more than a block's first step.
struct RowShape {
  int32_t rows, cols;
  int64_t stride;
};
const RowShape kShapes[] = {{1, 1, 1},     {3, 7, 9},       {2, 576, 576},
                            {3, 577, 600}, {1, 4112, 4112}, {2, 8208, 8208}};

double InverseRms(const float* x, int32_t cols) {
  double squares = 0;
  for (int32_t c = 0; c < cols; ++c) squares += double{x[c]} * double{x[c]};
  return 1 / std::sqrt(squares / cols + double{kEps});
}

// Rows as a kernel left them. Codes are multiplied with their row's scale.
class RoundedRows {
 public:
  RoundedRows(DType type, const RowShape& shape)
      : type_(type),
        shape_(shape),
        data_(static_cast<size_t>(StorageBytes(type, shape.rows * shape.stride))),
        scales_(static_cast<size_t>(shape.rows)) {}

  void* data() const { return data_.data(); }
  float* scales() const { return type_ == DType::kF8E4M3 ? scales_.data() : nullptr; }

  // `expected`: [rows][cols]. Each element may err by half a unit of its type's last place, and by
  // kFp32Error before it is rounded; a row's largest magnitude is 448 of its scale.
  void ExpectAre(const std::vector<std::vector<double>>& expected) const {
    const std::vector<std::byte> bytes = data_.Get();
    const auto* halves = reinterpret_cast<const uint16_t*>(bytes.data());
    const std::vector<float> scales =
        type_ == DType::kF8E4M3 ? scales_.Get() : std::vector<float>(expected.size());
    for (size_t r = 0; r < expected.size(); ++r) {
      double largest = 0;
      for (const double value : expected[r]) largest = std::fmax(largest, std::abs(value));
      for (size_t c = 0; c < expected[r].size(); ++c) {
        const size_t at = r * static_cast<size_t>(shape_.stride) + c;
        const double wanted = expected[r][c];
        if (type_ == DType::kF8E4M3) {
          const double scale = largest / kLargestE4m3Number;
          ASSERT_NEAR(scales[r], scale, scale * kFp32Error);
          ASSERT_NEAR(FromE4m3(static_cast<uint8_t>(bytes[at])) * scales[r], wanted,
                      scale * E4m3Error(wanted / scale) + largest * 2 * kFp32Error)
              << r << ", " << c;
        } else {
          ASSERT_NEAR(FromFp16(halves[at]), wanted,
                      std::abs(wanted) * (0x1p-11 + kFp32Error) + 0x1p-24)
              << r << ", " << c;
        }
      }
    }
  }

 private:
  const DType type_;
  const RowShape shape_;
  DeviceArray<std::byte> data_;
  DeviceArray<float> scales_;
};

constexpr DType kTypes[] = {DType::kF16, DType::kF8E4M3};

TEST(RoundedRows, OfANormHoldTheDefinition) {
  const DeviceStream stream;
  for (const RowShape& shape : kShapes)
    for (const DType type : kTypes)
      for (const bool normed : {true, false}) {
        SCOPED_TRACE(testing::Message() << shape.rows << " x " << shape.cols << " "
                                        << std::string(Info(type).name) << normed);
        const auto count = static_cast<size_t>(shape.rows * shape.stride);
        const std::vector<float> x = NormalFloats(count, 3, 1);
        const std::vector<float> weight = NormalFloats(static_cast<size_t>(shape.cols), 1, 2);
        const DeviceArray<float> device_x(x), device_weight(weight);
        const RoundedRows out(type, shape);
        RmsNormArgs args;
        args.x = device_x.data();
        args.x_stride = args.out_stride = shape.stride;
        args.weight = normed ? device_weight.data() : nullptr;
        args.eps = kEps;
        args.type = type;
        args.out = out.data();
        args.out_scales = out.scales();
        args.rows = shape.rows;
        args.cols = shape.cols;
        ASSERT_EQ(Finish(stream, LaunchRmsNorm(args, stream)), "");
        std::vector<std::vector<double>> expected;
        for (int32_t r = 0; r < shape.rows; ++r) {
          const float* row = x.data() + r * shape.stride;
          const double scale = normed ? InverseRms(row, shape.cols) : 1;
          for (expected.emplace_back(); expected.back().size() < size_t(shape.cols);) {
            const size_t c = expected.back().size();
            expected.back().push_back(row[c] * scale * (normed ? weight[c] : 1.0f));
          }
        }
        out.ExpectAre(expected);
      }
}

TEST(RoundedRows, OfASumHoldTheNextNorm) {
  const DeviceStream stream;
  for (const RowShape& shape : kShapes)
    for (const DType type : kTypes) {
      const auto count = static_cast<size_t>(shape.rows * shape.stride);
      const std::vector<float> x = NormalFloats(count, 3, 3), before = NormalFloats(count, 1, 4);
      const auto cols = static_cast<size_t>(shape.cols);
      const std::vector<float> weight = NormalFloats(cols, 1, 5), next = NormalFloats(cols, 1, 6);
      const DeviceArray<float> device_x(x), device_weight(weight), device_next(next), sums(before);
      const RoundedRows out(type, shape);
      AddNormedArgs args;
      args.x = device_x.data();
      args.x_stride = args.out_stride = args.next_stride = shape.stride;
      args.weight = device_weight.data();
      args.eps = args.next_eps = kEps;
      args.out = sums.data();
      args.rows = shape.rows;
      args.cols = shape.cols;
      args.next_weight = device_next.data();
      args.next_type = type;
      args.next_out = out.data();
      args.next_scales = out.scales();
      ASSERT_EQ(Finish(stream, LaunchAddNormed(args, stream)), "");
      const std::vector<float> after = sums.Get();
      std::vector<std::vector<double>> expected;
      for (int32_t r = 0; r < shape.rows; ++r) {
        const float* row = after.data() + r * shape.stride;
        const double x_scale = InverseRms(x.data() + r * shape.stride, shape.cols);
        const double scale = InverseRms(row, shape.cols);
        expected.emplace_back();
        for (size_t c = 0; c < cols; ++c) {
          const auto at = static_cast<size_t>(r * shape.stride) + c;
          const double added = x[at] * x_scale * weight[c];
          ASSERT_NEAR(row[c], before[at] + added, (std::abs(added) + std::abs(before[at])) * 2e-6);
          expected.back().push_back(row[c] * scale * next[c]);
        }
      }
      out.ExpectAre(expected);
    }
}

double Activate(GateActivation activation, double x) {
  if (activation == GateActivation::kSilu) return x / (1 + std::exp(-x));
  return x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))) / 2;
}

TEST(RoundedRows, OfAGateHoldActivatedGateTimesUp) {
  const DeviceStream stream;
  for (const RowShape& shape : kShapes)
    for (const DType type : kTypes)
      for (const auto activation : {GateActivation::kSilu, GateActivation::kGeluTanh}) {
        SCOPED_TRACE(testing::Message() << shape.rows << " x " << shape.cols);
        const int64_t in_stride = 2 * shape.stride;
        // Gates above -2: below, GELU's tanh form cancels, which RowKernels' test allows for.
        std::vector<float> gate_up =
            NormalFloats(static_cast<size_t>(shape.rows * in_stride), 0.5, 7);
        for (float& value : gate_up) value = std::abs(value);
        const DeviceArray<float> in(gate_up);
        const RoundedRows out(type, shape);
        GateArgs args;
        args.gate_up = in.data();
        args.gate_up_stride = in_stride;
        args.activation = activation;
        args.type = type;
        args.rounded = out.data();
        args.rounded_stride = shape.stride;
        args.rounded_scales = out.scales();
        args.rows = shape.rows;
        args.cols = shape.cols;
        ASSERT_EQ(Finish(stream, LaunchGate(args, stream)), "");
        std::vector<std::vector<double>> expected;
        for (int32_t r = 0; r < shape.rows; ++r) {
          const float* row = gate_up.data() + r * in_stride;
          expected.emplace_back();
          for (int32_t c = 0; c < shape.cols; ++c)
            expected.back().push_back(Activate(activation, row[c]) * row[shape.cols + c]);
        }
        out.ExpectAre(expected);
      }
}

// What no scale can hold ends as NaN, and with it every sum over the row; nothing is lost in a
// maximum. A row of zeros, or of numbers near fp32's smallest, is none of that.
TEST(RoundedRows, OfE4m3KeepNaNAndInfinityAndZeros) {
  constexpr int32_t kCols = 64;
  const DeviceStream stream;
  std::vector<float> x = NormalFloats(5 * kCols, 1, 8);
  x[0 * kCols + 40] = std::numeric_limits<float>::quiet_NaN();
  x[1 * kCols + 41] = -kInfinity;
  for (int32_t c = 0; c < kCols; ++c) {
    x[static_cast<size_t>(2 * kCols + c)] = 0.0f;
    x[static_cast<size_t>(3 * kCols + c)] = 1e-40f;
    x[static_cast<size_t>(4 * kCols + c)] = c == 3 ? 1e38f : -1e37f;
  }
  for (const bool gate : {false, true}) {
    SCOPED_TRACE(gate);
    std::vector<float> gate_up;  // up is 1 where gate is large, so that the product is about x
    for (size_t r = 0; r < 5; ++r) {
      for (size_t c = 0; c < kCols; ++c) gate_up.push_back(40.0f);
      for (size_t c = 0; c < kCols; ++c) gate_up.push_back(x[r * kCols + c] / 40.0f);
    }
    const DeviceArray<float> in(gate ? gate_up : x), scales(5);
    const DeviceArray<uint8_t> codes(5 * kCols);
    RmsNormArgs norm;
    norm.x = in.data();
    norm.x_stride = norm.out_stride = norm.cols = kCols;
    norm.type = DType::kF8E4M3;
    norm.out = codes.data();
    norm.out_scales = scales.data();
    norm.rows = 5;
    GateArgs gated;
    gated.gate_up = in.data();
    gated.gate_up_stride = 2 * kCols;
    gated.type = DType::kF8E4M3;
    gated.rounded = codes.data();
    gated.rounded_scales = scales.data();
    gated.rounded_stride = gated.cols = kCols;
    gated.rows = 5;
    ASSERT_EQ(Finish(stream, gate ? LaunchGate(gated, stream) : LaunchRmsNorm(norm, stream)), "");
    const std::vector<uint8_t> got = codes.Get();
    const std::vector<float> scale = scales.Get();
    EXPECT_TRUE(std::isnan(scale[0]));
    EXPECT_TRUE(std::isinf(scale[1]));
    for (size_t c = 0; c < kCols; ++c) {
      EXPECT_TRUE(std::isnan(FromE4m3(got[c]) * scale[0]));
      EXPECT_TRUE(std::isnan(FromE4m3(got[kCols + c]) * scale[1])) << c;
      EXPECT_EQ(FromE4m3(got[2 * kCols + c]) * scale[2], 0);
      EXPECT_LT(std::abs(FromE4m3(got[3 * kCols + c]) * scale[3]), 1e-30);
      EXPECT_NEAR(FromE4m3(got[4 * kCols + c]) * scale[4], c == 3 ? 1e38 : -1e37, 1e36);
    }
  }
}

TEST(RoundedRows, OfFp16BecomeInfiniteBeyondItsLargestNumber) {
  const DeviceStream stream;
  const DeviceArray<float> x(std::vector<float>{65504, 65519, 65521, -1e6f, 6e-8f, 1e-9f, 1, 0});
  const DeviceArray<uint16_t> out(8);
  RmsNormArgs args = {x.data(), 8, nullptr, nullptr, 0, out.data(), 8, 1, 8, DType::kF16};
  ASSERT_EQ(Finish(stream, LaunchRmsNorm(args, stream)), "");
  const double expected[] = {65504, 65504, kInfinity, -kInfinity, 0x1p-24, 0, 1, 0};
  const std::vector<uint16_t> bits = out.Get();
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(FromFp16(bits[i]), expected[i]) << i;
}

TEST(RoundedRows, OfAnFp16TableAreRead) {
  const DeviceStream stream;
  std::mt19937 random(1);
  for (const int32_t cols : {16, 13}) {
    const std::vector<uint16_t> table = RandomFp16(static_cast<size_t>(3 * cols), random);
    const DeviceArray<uint16_t> device_table(table);
    const DeviceArray<int32_t> ids(std::vector<int32_t>{2, 0});
    const DeviceArray<float> out(static_cast<size_t>(2 * cols));
    EmbeddingArgs args = {device_table.data(), cols, 3, 0,    3,       ids.data(), 1.0f,
                          out.data(),          cols, 2, cols, nullptr, 0,          DType::kF16};
    ASSERT_EQ(Finish(stream, LaunchEmbedding(args, stream)), "");
    const std::vector<float> rows = out.Get();
    for (size_t c = 0; c < static_cast<size_t>(cols); ++c) {
      EXPECT_EQ(rows[c], FromFp16(table[2 * static_cast<size_t>(cols) + c]));
      EXPECT_EQ(rows[static_cast<size_t>(cols) + c], FromFp16(table[c]));
    }
  }
}

TEST(ScaleSums, MultipliesRowsAndColumnsAndAdds) {
  const DeviceStream stream;
  for (const RowShape& shape : {RowShape{3, 7, 9}, RowShape{2, 1040, 1040}})
    for (const bool add : {false, true}) {
      const auto count = static_cast<size_t>(shape.rows * shape.stride);
      const auto cols = static_cast<size_t>(shape.cols);
      const std::vector<float> sums = NormalFloats(count, 100, 1),
                               before = NormalFloats(count, 1, 2),
                               columns = NormalFloats(cols, 0.01f, 3),
                               bias = NormalFloats(cols, 1, 4),
                               scales = NormalFloats(static_cast<size_t>(shape.rows), 1, 5);
      const DeviceArray<float> x(sums), out(before), col_scales(columns), device_bias(bias),
          row_scales(scales);
      ScaleSumsArgs args = {x.data(),
                            shape.stride,
                            row_scales.data(),
                            col_scales.data(),
                            add ? nullptr : device_bias.data(),
                            out.data(),
                            shape.stride,
                            add,
                            shape.rows,
                            shape.cols};
      ASSERT_EQ(Finish(stream, LaunchScaleSums(args, stream)), "");
      const std::vector<float> got = out.Get();
      for (size_t i = 0; i < count; ++i) {
        const size_t r = i / static_cast<size_t>(shape.stride);
        const size_t c = i % static_cast<size_t>(shape.stride);
        if (c >= cols) {
          ASSERT_EQ(got[i], before[i]);
          continue;
        }
        const double scaled = double{sums[i]} * scales[r] * columns[c];
        const double other = add ? before[i] : bias[c];
        ASSERT_NEAR(got[i], scaled + other, (std::abs(scaled) + std::abs(other)) * 0x1p-22);
      }
    }
}

TEST(RoundedRows, NeedScalesWhereTheyAreE4m3) {
  const DeviceStream stream;
  const DeviceArray<float> x(64);
  const DeviceArray<std::byte> out(64);
  RmsNormArgs norm = {x.data(), 16, nullptr, nullptr, 0, out.data(), 16, 1, 16, DType::kF8E4M3};
  EXPECT_THAT(std::string(LaunchRmsNorm(norm, stream).message()),
              HasSubstr("out_scales is missing"));
  norm.type = DType::kF32;
  EXPECT_EQ(LaunchRmsNorm(norm, stream).code(), absl::StatusCode::kUnimplemented);
  GateArgs gate;
  gate.gate_up = x.data();
  gate.gate_up_stride = 32;
  gate.rounded = out.data();
  gate.rounded_stride = gate.cols = 16;
  gate.rows = 1;
  gate.type = DType::kF8E4M3;
  EXPECT_THAT(std::string(LaunchGate(gate, stream).message()),
              HasSubstr("rounded_scales is missing"));
  gate.rounded_scales = x.data();
  gate.out = x.data();
  gate.out_stride = 16;
  EXPECT_THAT(std::string(LaunchGate(gate, stream).message()), HasSubstr("no fp32 rows"));
}

}  // namespace
}  // namespace octavo::cuda
