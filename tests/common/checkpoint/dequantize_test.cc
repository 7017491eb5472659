#include "common/checkpoint/dequantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "tests/common/checkpoint/file_builders.h"
#include "tests/common/checkpoint/status_testing.h"

namespace octavo {
namespace {

TEST(DequantizeRow, EqualsGgufPyOnRandomBlocksOfEveryFormat) {
  const std::map<std::string, DType> types = {{"Q8_0", DType::kQ8_0}, {"Q4_0", DType::kQ4_0},
                                              {"Q4_1", DType::kQ4_1}, {"Q5_0", DType::kQ5_0},
                                              {"Q5_1", DType::kQ5_1}, {"Q4_K", DType::kQ4_K},
                                              {"Q5_K", DType::kQ5_K}, {"Q6_K", DType::kQ6_K}};
  std::ifstream file(OCTAVO_SOURCE_DIR "/tests/common/checkpoint/data/dequantize_blocks.txt");
  std::map<std::string, int> seen;
  for (std::string name, block_hex, values_hex; file >> name >> block_hex >> values_hex;) {
    ASSERT_TRUE(types.contains(name)) << name;
    const DType dtype = types.at(name);
    const std::string block = absl::HexStringToBytes(block_hex);
    const std::string expected_bytes = absl::HexStringToBytes(values_hex);
    const auto elements = static_cast<int64_t>(expected_bytes.size() / sizeof(float));
    ASSERT_EQ(static_cast<int64_t>(block.size()), StorageBytes(dtype, elements));
    std::vector<float> expected(static_cast<size_t>(elements)), actual(expected.size());
    std::memcpy(expected.data(), expected_bytes.data(), expected_bytes.size());
    ASSERT_TRUE(DequantizeRow(dtype, AsBytes(block).data(), elements, actual.data()).ok());
    EXPECT_EQ(actual, expected) << name << " block " << seen[name];
    ++seen[name];
  }
  for (const auto& [name, dtype] : types) EXPECT_EQ(seen[name], 3) << name;
}

TEST(DequantizeRow, ReadsPlainFloatsAtAnyAddress) {
  const std::string f32 = "x" + Bytes(1.5f) + Bytes(-2.25f);
  const std::string f16 = "x" + Bytes<uint16_t>(0x3e00) + Bytes<uint16_t>(0xc080);
  const std::string bf16 = "x" + Bytes<uint16_t>(0x3fc0) + Bytes<uint16_t>(0xc010);
  const std::vector<float> expected = {1.5f, -2.25f};
  std::vector<float> out(2);
  ASSERT_TRUE(DequantizeRow(DType::kF32, AsBytes(f32).data() + 1, 2, out.data()).ok());
  EXPECT_EQ(out, expected);
  ASSERT_TRUE(DequantizeRow(DType::kF16, AsBytes(f16).data() + 1, 2, out.data()).ok());
  EXPECT_EQ(out, expected);
  ASSERT_TRUE(DequantizeRow(DType::kBF16, AsBytes(bf16).data() + 1, 2, out.data()).ok());
  EXPECT_EQ(out, expected);
}

TEST(DequantizeRow, RefusesPartsOfBlocks) {
  std::vector<std::byte> block(256);
  std::vector<float> out(256);
  ExpectRefused(DequantizeRow(DType::kQ4_K, block.data(), 128, out.data()),
                absl::StatusCode::kInvalidArgument, {"128", "Q4_K", "256"});
  ExpectRefused(DequantizeRow(DType::kQ4_1, block.data(), -32, out.data()),
                absl::StatusCode::kInvalidArgument, {"-32"});
  ExpectRefused(DequantizeRow(DType::kI8, block.data(), 32, out.data()),
                absl::StatusCode::kUnimplemented, {"int8"});
}

TEST(HalfToFloat, IsExactForEveryClassOfNumber) {
  EXPECT_EQ(HalfToFloat(0x0000), 0.0f);
  EXPECT_TRUE(std::signbit(HalfToFloat(0x8000)));
  EXPECT_EQ(HalfToFloat(0x0001), 0x1p-24f);     // smallest subnormal
  EXPECT_EQ(HalfToFloat(0x83ff), -0x3ffp-24f);  // largest subnormal
  EXPECT_EQ(HalfToFloat(0x0400), 0x1p-14f);     // smallest normal
  EXPECT_EQ(HalfToFloat(0x3c00), 1.0f);
  EXPECT_EQ(HalfToFloat(0x3c01), 1.0f + 0x1p-10f);
  EXPECT_EQ(HalfToFloat(0x7bff), 65504.0f);
  EXPECT_EQ(HalfToFloat(0xfc00), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(HalfToFloat(0x7e00)));
}

}  // namespace
}  // namespace octavo
