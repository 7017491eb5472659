#include "common/dtype.h"

#include "gtest/gtest.h"

namespace octavo {
namespace {

TEST(DType, StorageFollowsTheBlockFormats) {
  EXPECT_EQ(StorageBytes(DType::kF32, 64), 256);
  EXPECT_EQ(StorageBytes(DType::kBF16, 64), 128);
  EXPECT_EQ(StorageBytes(DType::kQ8_0, 64), 68);
  EXPECT_EQ(StorageBytes(DType::kQ4_1, 576), 360);
  EXPECT_EQ(StorageBytes(DType::kQ4_K, 256), 144);
  EXPECT_EQ(StorageBytes(DType::kQ6_K, 512), 420);
}

TEST(DType, ParsesTheNamesOfFlags) {
  EXPECT_EQ(ParseFloatOrInt8("float32"), DType::kF32);
  EXPECT_EQ(ParseFloatOrInt8("f32"), DType::kF32);
  EXPECT_EQ(ParseFloatOrInt8("fp16"), DType::kF16);
  EXPECT_EQ(ParseFloatOrInt8("float16"), DType::kF16);
  EXPECT_EQ(ParseFloatOrInt8("bf16"), DType::kBF16);
  EXPECT_EQ(ParseFloatOrInt8("bfloat16"), DType::kBF16);
  EXPECT_EQ(ParseFloatOrInt8("int8"), DType::kI8);
  EXPECT_EQ(ParseFloatOrInt8("fp8"), DType::kF8E4M3);
  EXPECT_EQ(ParseFloatOrInt8("fp8_e4m3"), DType::kF8E4M3);
  EXPECT_EQ(ParseFloatOrInt8("fp8_e5m2"), DType::kF8E5M2);
  EXPECT_EQ(ParseFloatOrInt8("Q4_0"), std::nullopt);
  EXPECT_EQ(ParseFloatOrInt8(""), std::nullopt);
}

TEST(DType, NamesOfFlagsParseBack) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kI8, DType::kF8E4M3,
                            DType::kF8E5M2})
    EXPECT_EQ(ParseFloatOrInt8(Info(dtype).name), dtype);
}

}  // namespace
}  // namespace octavo
