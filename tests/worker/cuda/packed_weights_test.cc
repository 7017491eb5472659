#include "worker/cuda/packed_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "common/checkpoint/dequantize.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/emulation/device_array.h"
#include "tests/worker/cuda/bfloat16_testing.h"
#include "tests/worker/cuda/e4m3_testing.h"
#include "tests/worker/cuda/stored_weights_testing.h"

namespace octavo::cuda {
namespace {

using ::testing::HasSubstr;

class PackedWeightsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto staging = Staging::Create(stream_);
    ASSERT_TRUE(staging.ok()) << staging.status();
    staging_ = *std::move(staging);
    packer_ = std::make_unique<WeightPacker>(*staging_, WeightFormats{});
  }
  void TearDown() override { EXPECT_EQ(stream_.Synchronize(), ""); }

  WeightView View(DType dtype, int64_t rows, int64_t cols) {
    stored_.push_back(RandomStored(dtype, rows, cols, random_));
    return {"w" + std::to_string(stored_.size()), dtype, rows, cols, stored_.back().data()};
  }
  std::vector<uint16_t> Bits(const CudaLinear& linear) {
    EXPECT_EQ(stream_.Synchronize(), "");
    return ReadDevice<uint16_t>(linear.data(),
                                static_cast<size_t>(linear.out_features() * linear.stride()));
  }

  std::mt19937 random_{3};
  emulation::DeviceStream stream_;
  std::vector<std::vector<std::byte>> stored_;
  std::unique_ptr<Staging> staging_;
  std::unique_ptr<WeightPacker> packer_;
};

// Half a unit in the last of bf16's 8 bits.
TEST_F(PackedWeightsTest, HoldEveryStorageTypeRoundedToTheNearestBFloat16) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_0,
                            DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ4_K, DType::kQ6_K}) {
    SCOPED_TRACE(std::string(Info(dtype).name));
    const int64_t rows = 5, cols = 256;
    const WeightView view = View(dtype, rows, cols);
    const auto linear = packer_->Linear({{view}, {}, false});
    ASSERT_TRUE(linear.ok()) << linear.status();
    EXPECT_EQ((*linear)->in_features(), cols);
    EXPECT_EQ((*linear)->out_features(), rows);
    const std::vector<uint16_t> bits = Bits(**linear);
    std::vector<float> expected(static_cast<size_t>(cols));
    for (int64_t r = 0; r < rows; ++r) {
      ASSERT_TRUE(
          DequantizeRow(dtype, view.data + r * StorageBytes(dtype, cols), cols, expected.data())
              .ok());
      for (int64_t c = 0; c < cols; ++c) {
        const float value = expected[static_cast<size_t>(c)];
        const float packed = FromBFloat16(bits[static_cast<size_t>(r * (*linear)->stride() + c)]);
        ASSERT_LE(std::abs(packed - value), std::abs(value) * 0x1p-8f) << r << "," << c;
        if (dtype == DType::kBF16) {
          ASSERT_EQ(packed, value);
        }
      }
    }
  }
}

TEST_F(PackedWeightsTest, StackPartsOfDifferentTypesAndPadRowsWithZeros) {
  const WeightView first = View(DType::kF32, 3, 20), second = View(DType::kBF16, 2, 20);
  const auto linear = packer_->Linear({{first, second}, std::vector<float>(5, 1.5f), false});
  ASSERT_TRUE(linear.ok()) << linear.status();
  EXPECT_EQ((*linear)->stride(), 24);
  const std::vector<uint16_t> bits = Bits(**linear);
  for (size_t row = 0; row < 5; ++row)
    for (size_t c = 20; c < 24; ++c) EXPECT_EQ(bits[row * 24 + c], 0) << row << "," << c;
  uint16_t last;
  std::memcpy(&last, second.data + (2 * 20 - 1) * 2, 2);
  EXPECT_EQ(bits[4 * 24 + 19], last);
  EXPECT_EQ(ReadDevice<float>((*linear)->bias(), 5), std::vector<float>(5, 1.5f));
}

TEST_F(PackedWeightsTest, LargeMatricesGoThroughManySlots) {
  const WeightView view = View(DType::kBF16, 9000, 520);  // 9 MiB: more slots than one
  const auto linear = packer_->Linear({{view}, {}, false});
  ASSERT_TRUE(linear.ok()) << linear.status();
  const std::vector<uint16_t> bits = Bits(**linear);
  EXPECT_EQ(std::memcmp(bits.data(), view.data, bits.size() * 2), 0);
}

TEST_F(PackedWeightsTest, TiedWeightsAreOneMatrix) {
  const WeightView view = View(DType::kBF16, 4, 16);
  const auto embedding = packer_->Embedding(view);
  const auto head = packer_->Linear({{view}, {}, false});
  ASSERT_TRUE(embedding.ok() && head.ok());
  EXPECT_EQ(static_cast<const void*>((*embedding)->data()), (*head)->data());
}

TEST_F(PackedWeightsTest, KeepFourAndEightBitsWhereThatIsWanted) {
  WeightPacker packer(*staging_, {.keep_quantized = true});
  const auto format = [&](const std::vector<WeightView>& parts) -> std::string {
    const auto linear = packer.Linear({parts, {}, false});
    EXPECT_TRUE(linear.ok()) << linear.status();
    const QuantMatrix* quantized = (*linear)->quantized();
    if (quantized == nullptr) return "bf16";
    EXPECT_EQ((*linear)->bytes(),
              QuantBytes(quantized->format, (*linear)->out_features(), (*linear)->in_features()));
    return std::to_string(quantized->format.bits) + (quantized->format.has_min ? " with min" : "");
  };
  const auto view = [&](DType dtype) { return View(dtype, 5, 256); };
  EXPECT_EQ(format({view(DType::kQ4_0)}), "4");
  EXPECT_EQ(format({view(DType::kQ4_1), view(DType::kQ4_K)}), "4 with min");
  EXPECT_EQ(format({view(DType::kQ8_0), view(DType::kQ5_0)}), "8");
  EXPECT_EQ(format({view(DType::kQ4_0), view(DType::kQ4_1)}), "8 with min");
  EXPECT_EQ(format({view(DType::kQ4_0), view(DType::kQ6_K)}), "bf16");
  EXPECT_EQ(format({view(DType::kBF16)}), "bf16");
}

// Half a unit in the last of fp16's 11 bits, or of the smallest number.
TEST_F(PackedWeightsTest, HoldEveryStorageTypeRoundedToTheNearestFp16) {
  WeightPacker packer(*staging_, {.type = DType::kF16});
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_K}) {
    SCOPED_TRACE(std::string(Info(dtype).name));
    const int64_t rows = 5, cols = 256;
    const WeightView view = View(dtype, rows, cols);
    const auto linear = packer.Linear({{view}, {}, false});
    ASSERT_TRUE(linear.ok()) << linear.status();
    EXPECT_EQ((*linear)->type(), DType::kF16);
    const std::vector<uint16_t> bits = Bits(**linear);
    std::vector<float> row(static_cast<size_t>(cols));
    for (int64_t r = 0; r < rows; ++r) {
      ASSERT_TRUE(DequantizeRow(dtype, view.row(r), cols, row.data()).ok());
      for (int64_t c = 0; c < cols; ++c) {
        const double value = row[static_cast<size_t>(c)];
        ASSERT_NEAR(FromFp16(bits[static_cast<size_t>(r * cols + c)]), value,
                    std::max(std::abs(value) * 0x1p-11, 0x1p-25));
      }
    }
  }
}

TEST_F(PackedWeightsTest, PadRowsThatTheDeviceRoundsWithZeros) {
  WeightPacker packer(*staging_, {.type = DType::kF16, .fp8 = true});
  const auto linear = packer.Linear({{View(DType::kF32, 5, 20)}, {}, false});  // no fp8: not of 16
  ASSERT_TRUE(linear.ok()) << linear.status();
  const std::vector<uint16_t> bits = Bits(**linear);
  for (size_t row = 0; row < 5; ++row)
    for (size_t c = 20; c < 24; ++c) EXPECT_EQ(bits[row * 24 + c], 0) << row << "," << c;
}

// Parts of several types that go through many slots; each row's largest magnitude is 448.
TEST_F(PackedWeightsTest, HoldCodesAndAScaleForEachRowInFp8) {
  WeightPacker packer(*staging_, {.fp8 = true});
  const int64_t cols = 1024;
  const std::vector<WeightView> parts = {View(DType::kF32, 600, cols), View(DType::kQ4_0, 8, cols)};
  const auto linear = packer.Linear({parts, {}, false});
  ASSERT_TRUE(linear.ok()) << linear.status();
  EXPECT_EQ((*linear)->type(), DType::kF8E4M3);
  EXPECT_EQ((*linear)->bytes(), 608 * (cols + 4));
  EXPECT_EQ(stream_.Synchronize(), "");
  const auto codes = ReadDevice<uint8_t>((*linear)->data(), static_cast<size_t>(608 * cols));
  const auto scales = ReadDevice<float>((*linear)->scales(), 608);
  std::vector<float> row(static_cast<size_t>(cols));
  for (int64_t r = 0; r < 608; ++r) {
    const WeightView& part = parts[r < 600 ? 0 : 1];
    ASSERT_TRUE(DequantizeRow(part.dtype, part.row(r % 600), cols, row.data()).ok());
    double largest = 0;
    for (const float value : row) largest = std::max(largest, std::abs(double{value}));
    const double scale = scales[static_cast<size_t>(r)];
    ASSERT_NEAR(scale, largest / kLargestE4m3Number, scale * 1e-6);
    for (int64_t c = 0; c < cols; ++c) {
      const double value = row[static_cast<size_t>(c)];
      ASSERT_NEAR(FromE4m3(codes[static_cast<size_t>(r * cols + c)]) * scale, value,
                  scale * E4m3Error(value / scale) * 1.00001)
          << r << "," << c;
    }
  }
}

TEST_F(PackedWeightsTest, RefuseWhatDoesNotFitTogetherByName) {
  const auto error = [&](const LinearSource& source) {
    return std::string(packer_->Linear(source).status().message());
  };
  EXPECT_THAT(error({{View(DType::kF32, 2, 8), View(DType::kF32, 2, 16)}, {}, false}),
              HasSubstr("w2 has 16 columns; the parts before it have 8"));
  EXPECT_THAT(error({{View(DType::kF32, 2, 8)}, {}, true}), HasSubstr("a gate and an up weight"));
  EXPECT_THAT(error({{View(DType::kF32, 2, 8)}, {1.0f}, false}), HasSubstr("1 values for 2 rows"));
  WeightView missing = View(DType::kF32, 2, 8);
  missing.data = nullptr;
  EXPECT_THAT(error({{missing}, {}, false}), HasSubstr("has no data"));
  WeightView cache_type = View(DType::kF32, 2, 8);
  cache_type.dtype = DType::kI8;
  EXPECT_THAT(error({{cache_type}, {}, false}), HasSubstr("int8, which no weight may have"));
}

}  // namespace
}  // namespace octavo::cuda
