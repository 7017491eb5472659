#include "worker/cpu/packed_linear.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "worker/cpu/packed_panels.h"

namespace octavo {
namespace {

using ::testing::HasSubstr;

class PackedLinearTest : public ::testing::Test {
 protected:
  // A weight of zero bytes.
  WeightView Zeros(const std::string& name, DType dtype, int64_t rows, int64_t cols) {
    return {name, dtype, rows, cols, zeros_.data()};
  }
  absl::Status Refusal(std::vector<WeightView> parts, bool gated = false, size_t bias = 0) {
    LinearSource source;
    source.parts = std::move(parts);
    source.gated = gated;
    source.bias.resize(bias);
    return PackedLinear::Pack(source, arena_, pool_).status();
  }

  std::vector<std::byte> zeros_ = std::vector<std::byte>(1 << 20);
  WeightArena arena_;
  ThreadPool pool_{2};
};

TEST_F(PackedLinearTest, TakesNoMoreRoomThanTheStoredWeight) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_0,
                            DType::kQ4_1, DType::kQ5_0, DType::kQ5_1}) {
    const auto packed =
        PackedLinear::Pack({{Zeros("w", dtype, 64, 256)}, {}, false}, arena_, pool_);
    ASSERT_TRUE(packed.ok()) << packed.status();
    EXPECT_EQ((*packed)->bytes(), 64 * StorageBytes(dtype, 256)) << Info(dtype).name;
  }
  // K-quants: 6-bit scales become bytes.
  for (const DType dtype : {DType::kQ4_K, DType::kQ5_K, DType::kQ6_K}) {
    const auto packed =
        PackedLinear::Pack({{Zeros("w", dtype, 64, 256)}, {}, false}, arena_, pool_);
    ASSERT_TRUE(packed.ok()) << packed.status();
    EXPECT_LE((*packed)->bytes(), 64 * (StorageBytes(dtype, 256) + 4)) << Info(dtype).name;
  }
}

TEST_F(PackedLinearTest, StartsNewSegmentsWhereTheFormatChanges) {
  const auto packed =
      PackedLinear::Pack({{Zeros("q", DType::kQ4_K, 40, 256), Zeros("k", DType::kQ4_K, 8, 256),
                           Zeros("v", DType::kQ6_K, 8, 256)},
                          {},
                          false},
                         arena_, pool_);
  ASSERT_TRUE(packed.ok()) << packed.status();
  ASSERT_EQ((*packed)->segments().size(), 2u);
  EXPECT_EQ((*packed)->segments()[0].rows, 48);
  EXPECT_EQ((*packed)->segments()[1].first_row, 48);
  EXPECT_EQ((*packed)->out_features(), 56);
}

TEST_F(PackedLinearTest, RefusesPartsThatDoNotFitTogether) {
  EXPECT_EQ(Refusal({}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(
          Refusal({Zeros("q", DType::kF32, 4, 64), Zeros("k", DType::kF32, 4, 32)}).message()),
      HasSubstr("weight k has 32 columns; the parts before it have 64"));
  EXPECT_THAT(std::string(Refusal({Zeros("w", DType::kQ4_K, 4, 96)}).message()),
              HasSubstr("96 columns, not a multiple of 256"));
  EXPECT_THAT(std::string(Refusal({Zeros("w", DType::kI8, 4, 96)}).message()),
              HasSubstr("element type int8"));
  EXPECT_THAT(std::string(Refusal({Zeros("w", DType::kF32, 0, 96)}).message()),
              HasSubstr("0 x 96"));
  EXPECT_THAT(std::string(Refusal({Zeros("gate", DType::kF32, 4, 32)}, true).message()),
              HasSubstr("1 parts"));
  EXPECT_THAT(std::string(Refusal({Zeros("w", DType::kF32, 4, 32)}, false, 3).message()),
              HasSubstr("3 values for 4 rows"));
  WeightView missing = Zeros("w", DType::kF32, 4, 32);
  missing.data = nullptr;
  EXPECT_THAT(std::string(Refusal({missing}).message()), HasSubstr("no data"));
}

TEST(PackedPanels, PlaceNibblesScalesAndMinimaWhereTheLayoutSays) {
  // One Q4_1 block: d = 1, m = 2 (fp16), q[k] = k mod 16 for k < 16 and 15 - k mod 16 above.
  std::vector<uint8_t> row = {0x00, 0x3C, 0x00, 0x40};
  for (int k = 0; k < 16; ++k) row.push_back(static_cast<uint8_t>(k | (15 - k) << 4));
  const std::byte* rows[kPanelRows] = {};
  rows[17] = reinterpret_cast<const std::byte*>(row.data());
  std::vector<uint8_t> panel(static_cast<size_t>(PanelBytes(PackFormat::kQ4_1, 1)));
  EncodePanel(PackFormat::kQ4_1, rows, 32, panel.data());
  auto word = [&](size_t at) {
    uint32_t value;
    std::memcpy(&value, panel.data() + at, 4);
    return value;
  };
  EXPECT_EQ(word(0 * 128 + 64 + 4), 0x76543210u);
  EXPECT_EQ(word(1 * 128 + 64 + 4), 0xFEDCBA98u);
  EXPECT_EQ(word(2 * 128 + 64 + 4), 0x89ABCDEFu);
  EXPECT_EQ(word(3 * 128 + 64 + 4), 0x01234567u);
  EXPECT_EQ(panel[512 + 32 + 2 + 1], 0x3C);
  EXPECT_EQ(panel[576 + 32 + 2 + 1], 0x40);
}

TEST(WeightArena, KeepsAllocationsApartAndZeroed) {
  WeightArena arena;
  for (const size_t bytes : {1u, 63u, 64u, 100'000'000u, 65u}) {
    const auto data = arena.Allocate(bytes);
    ASSERT_TRUE(data.ok()) << data.status();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(*data) % 64, 0u);
    EXPECT_EQ((*data)[0], 0);
    EXPECT_EQ((*data)[bytes - 1], 0);
    (*data)[0] = (*data)[bytes - 1] = 1;
  }
  EXPECT_EQ(arena.allocated_bytes(), 100'000'193u);
}

TEST(WeightArena, SaysHowMuchItLacked) {
  WeightArena arena;
  const auto data = arena.Allocate(size_t{1} << 60);
  EXPECT_EQ(data.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(data.status().message()), HasSubstr("1152921504606846976"));
}

}  // namespace
}  // namespace octavo
