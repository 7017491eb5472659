#include "common/cache_geometry.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace octavo {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kGiB = int64_t{1} << 30;

CacheGeometry Make(const KvShape& shape, DType dtype, int32_t block_size) {
  const absl::StatusOr<CacheGeometry> geometry = CacheGeometry::Create(shape, dtype, block_size);
  EXPECT_TRUE(geometry.ok()) << geometry.status();
  return *geometry;
}

TEST(CacheGeometry, Llama3Of8BInSixteenBits) {
  const CacheGeometry geometry = Make({32, 8, 128}, DType::kF16, 16);
  EXPECT_EQ(geometry.bytes_per_token(), 128 << 10);         // 128 KiB a token
  EXPECT_EQ(geometry.bytes_per_token() * 4096, 512 << 20);  // 512 MiB at 4,096 tokens
  EXPECT_EQ(geometry.bytes_per_block(), 2 << 20);           // a block is 2 MiB
  EXPECT_EQ(geometry.bytes_per_layer_block(), 64 << 10);
  const int64_t blocks = 64 * kGiB / geometry.bytes_per_block();
  EXPECT_EQ(geometry.MaxConcurrency(blocks, 4096), 128);  // 128 requests in 64 GiB
  EXPECT_EQ(geometry.PoolBytes(blocks), 64 * kGiB);
  EXPECT_EQ(geometry.Formula(),
            "2 x 32 layers x 8 kv_heads x 128 head_dim x 2 bytes = 131,072 bytes");
}

TEST(CacheGeometry, SmolLM2Of135MInBf16AndFloat32) {
  const CacheGeometry bf16 = Make({30, 3, 64}, DType::kBF16, 16);
  EXPECT_EQ(bf16.bytes_per_token(), 23'040);
  EXPECT_EQ(bf16.Formula(), "2 x 30 layers x 3 kv_heads x 64 head_dim x 2 bytes = 23,040 bytes");
  EXPECT_EQ(Make({30, 3, 64}, DType::kF32, 16).bytes_per_token(), 46'080);
}

TEST(CacheGeometry, Int8KeepsOneScalePerTokenAndHead) {
  const CacheGeometry geometry = Make({32, 8, 128}, DType::kI8, 16);
  EXPECT_EQ(geometry.bytes_per_token(), 2 * 32 * 8 * (128 + 2));
  EXPECT_THAT(geometry.Formula(), HasSubstr("(128 head_dim x 1 byte + 2) = 66,560 bytes"));
}

TEST(CacheGeometry, EightBitsHoldAtLeastOnePointNineTimesTheBlocksOfBf16) {
  const int64_t pool_bytes = int64_t{1} << 30;
  const int64_t bf16 = Make({30, 3, 64}, DType::kBF16, 16).LendableBlocks(pool_bytes);
  const CacheGeometry int8 = Make({30, 3, 64}, DType::kI8, 16);
  EXPECT_GE(static_cast<double>(int8.LendableBlocks(pool_bytes)), 1.9 * static_cast<double>(bf16));
  for (const DType dtype : {DType::kF8E4M3, DType::kF8E5M2}) {
    const CacheGeometry fp8 = Make({30, 3, 64}, dtype, 16);
    EXPECT_EQ(fp8.bytes_per_token(), 11'520);
    EXPECT_EQ(fp8.Formula(), "2 x 30 layers x 3 kv_heads x 64 head_dim x 1 byte = 11,520 bytes");
  }
}

TEST(CacheGeometry, RoundsTokensUpToBlocksAndBytesDown) {
  const CacheGeometry geometry = Make({1, 1, 8}, DType::kF32, 8);
  EXPECT_EQ(geometry.BlocksFor(0), 0);
  EXPECT_EQ(geometry.BlocksFor(1), 1);
  EXPECT_EQ(geometry.BlocksFor(8), 1);
  EXPECT_EQ(geometry.BlocksFor(9), 2);
  const int64_t block = geometry.bytes_per_block();
  EXPECT_EQ(geometry.LendableBlocks(10 * block), 9);  // one is padding (kv.1)
  EXPECT_EQ(geometry.LendableBlocks(10 * block - 1), 8);
  EXPECT_EQ(geometry.LendableBlocks(block), 0);
  EXPECT_EQ(geometry.LendableBlocks(0), 0);
}

// Layers with a window but for every `period`-th, which sees all.
std::vector<int32_t> Windows(int32_t layers, int32_t window, int32_t period) {
  std::vector<int32_t> windows;
  for (int32_t i = 1; i <= layers; ++i) windows.push_back(i % period == 0 ? 0 : window);
  return windows;
}

TEST(CacheGeometry, Gemma3Of270MKeepsThreeLayersInABlock) {
  const CacheGeometry geometry = Make({18, 1, 256, Windows(18, 512, 6)}, DType::kBF16, 16);
  EXPECT_EQ(geometry.num_groups(), 6);  // one that sees all, five with the window
  EXPECT_EQ(geometry.layers_per_block(), 3);
  EXPECT_EQ(geometry.bytes_per_token(), 18'432);
  EXPECT_EQ(geometry.bytes_per_old_token(), 3'072);
  EXPECT_EQ(geometry.bytes_per_block(), 3 * 16 * 1'024);
  EXPECT_EQ(geometry.Formula(),
            "2 x 18 layers x 1 kv_heads x 256 head_dim x 2 bytes = 18,432 bytes; 15 layers keep "
            "512 tokens: older ones cost 3,072 bytes");
  // 512 positions and one more touch at most 33 blocks of 16.
  EXPECT_EQ(geometry.BlocksHeld(32'768), 2'048 + 5 * 33);
  EXPECT_EQ(geometry.BlocksHeld(160), 6 * 10);
  // 5.6 times as many long requests as when every layer kept all.
  const CacheGeometry blind = Make({18, 1, 256}, DType::kBF16, 16);
  const int64_t bytes = 4 * kGiB;
  EXPECT_NEAR(geometry.MaxConcurrency(geometry.LendableBlocks(bytes), 32'768), 39.48, 0.01);
  EXPECT_NEAR(blind.MaxConcurrency(blind.LendableBlocks(bytes), 32'768), 7.11, 0.01);
}

TEST(CacheGeometry, Gemma3Of1BPadsOneGroup) {
  const CacheGeometry geometry = Make({26, 1, 256, Windows(26, 512, 6)}, DType::kBF16, 16);
  EXPECT_EQ(geometry.layers_per_block(), 4);  // 4 that see all, 22 with the window
  EXPECT_EQ(geometry.num_groups(), 7);
  EXPECT_EQ(geometry.groups().back(), (KvGroup{512, 2}));
  EXPECT_EQ(geometry.bytes_per_token(), 28 * 1'024);
  EXPECT_EQ(geometry.bytes_per_old_token(), 4 * 1'024);
  EXPECT_EQ(geometry.Formula(),
            "2 x (26 layers + 2 padding) x 1 kv_heads x 256 head_dim x 2 bytes = 28,672 bytes; 22 "
            "layers keep 512 tokens: older ones cost 4,096 bytes");
}

TEST(CacheGeometry, Gemma2AlternatesInTwoGroups) {
  const CacheGeometry geometry = Make({26, 4, 256, Windows(26, 4'096, 2)}, DType::kBF16, 16);
  EXPECT_EQ(geometry.num_groups(), 2);
  EXPECT_EQ(geometry.layers_per_block(), 13);
  EXPECT_EQ(geometry.bytes_per_token(), 26 * 4'096);
  EXPECT_EQ(geometry.BlocksHeld(8'192), 512 + 257);
}

TEST(CacheGeometry, Mistral7BOfVersion01KeepsItsWindow) {
  const CacheGeometry geometry =
      Make({32, 8, 128, std::vector<int32_t>(32, 4'096)}, DType::kF16, 16);
  EXPECT_EQ(geometry.num_groups(), 1);
  EXPECT_EQ(geometry.bytes_per_token(), 128 << 10);
  EXPECT_EQ(geometry.bytes_per_old_token(), 0);
  EXPECT_EQ(geometry.BlocksHeld(32'768), 257);
  EXPECT_THAT(geometry.Formula(),
              HasSubstr("; 32 layers keep 4,096 tokens: older ones cost 0 bytes"));
}

TEST(CacheGeometry, EqualOnesHaveEqualWindows) {
  const CacheGeometry geometry = Make({18, 1, 256, Windows(18, 512, 6)}, DType::kBF16, 16);
  EXPECT_EQ(geometry, Make({18, 1, 256, Windows(18, 512, 6)}, DType::kBF16, 16));
  EXPECT_NE(geometry, Make({18, 1, 256, Windows(18, 513, 6)}, DType::kBF16, 16));
  EXPECT_NE(geometry, CacheGeometry());
}

TEST(CacheGeometry, RefusesWhatHasNoLayout) {
  EXPECT_THAT(CacheGeometry::Create({2, 1, 8, {4}}, DType::kBF16, 16).status().message(),
              HasSubstr("1 windows for 2 layers"));
  EXPECT_THAT(CacheGeometry::Create({2, 1, 8, {4, -1}}, DType::kBF16, 16).status().message(),
              HasSubstr("window is -1"));
  for (const int32_t block_size : {0, 1, 12, 128, -16})
    EXPECT_THAT(CacheGeometry::Create({1, 1, 8}, DType::kBF16, block_size).status().message(),
                HasSubstr("it must be 8, 16, 32 or 64"));
  EXPECT_FALSE(CacheGeometry::Create({1, 1, 8}, DType::kQ4_0, 16).ok());
  EXPECT_FALSE(CacheGeometry::Create({0, 1, 8}, DType::kBF16, 16).ok());
  EXPECT_FALSE(CacheGeometry::Create({1, -1, 8}, DType::kBF16, 16).ok());
  EXPECT_FALSE(CacheGeometry::Create({1, 1, 0}, DType::kBF16, 16).ok());
}

TEST(WithCommas, GroupsThousands) {
  EXPECT_EQ(WithCommas(0), "0");
  EXPECT_EQ(WithCommas(999), "999");
  EXPECT_EQ(WithCommas(1000), "1,000");
  EXPECT_EQ(WithCommas(1234567), "1,234,567");
  EXPECT_EQ(WithCommas(-1234567), "-1,234,567");
  EXPECT_EQ(WithCommas(-100), "-100");
}

}  // namespace
}  // namespace octavo
