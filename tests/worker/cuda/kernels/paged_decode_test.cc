// Decode attention on the emulated device against the double reference.
#include "worker/cuda/kernels/paged_decode.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "tests/worker/cuda/kernels/attention_testing.h"

namespace octavo::cuda {
namespace {

void ExpectNear(const PagedShape& shape, const std::vector<int32_t>& lengths, int32_t num_parts) {
  ExpectNearReference(shape, DecodesOf(lengths), {num_parts, 0});
}

TEST(PagedDecode, MatchesTheReferenceAtEdgeContexts) {
  PagedShape shape;
  shape.num_heads = 4;
  shape.num_kv_heads = 2;
  for (const int32_t block_size : {8, 16, 32, 64}) {
    shape.block_size = block_size;
    ExpectNear(shape, {1, 15, 16, 17, 63, 64, 65, 300}, 3);
  }
  // One row that every part shares, and one alone in its part: rings are used again.
  ExpectNear(shape, {300}, 1);
  ExpectNear(shape, {300}, 5);
}

TEST(PagedDecode, MatchesTheReferenceForEveryDtypeAndHeadDim) {
  for (const DType dtype : kCacheTypes)
    for (const int32_t head_dim : {64, 80, 96, 128, 256}) {
      PagedShape shape;
      shape.dtype = dtype;
      shape.head_dim = head_dim;
      shape.block_size = head_dim == 80 ? 8 : 32;
      ExpectNear(shape, {1, 17, 300}, 3);
    }
}

TEST(PagedDecode, MatchesTheReferenceForEveryGroupSize) {
  for (const auto& [heads, kv_heads] :
       {std::pair{1, 1}, {2, 2}, {9, 3}, {4, 1}, {8, 1}, {24, 2}, {16, 1}, {20, 1}}) {
    for (const DType dtype : {DType::kBF16, DType::kI8}) {
      PagedShape shape;
      shape.num_heads = heads;
      shape.num_kv_heads = kv_heads;
      shape.dtype = dtype;
      ExpectNear(shape, {150, 33}, 2);
    }
  }
  // Head dimensions whose blocks of threads have 8 query heads.
  PagedShape shape;
  shape.num_heads = 20;
  shape.head_dim = 80;
  ExpectNear(shape, {150, 33}, 2);
}

TEST(PagedDecode, MatchesTheReferenceForEveryBatchSize) {
  std::vector<int32_t> lengths;
  for (const int32_t length : {40, 129, 7, 200, 64, 1, 90, 16, 300}) {
    lengths.push_back(length);
    PagedShape shape;
    shape.num_heads = 6;
    shape.num_kv_heads = 2;
    ExpectNear(shape, lengths, 4);
  }
}

TEST(PagedDecode, MatchesTheReferenceInSlidingWindows) {
  for (const int32_t window : {1, 16, 17, 100})
    for (const int32_t block_size : {8, 32}) {
      PagedShape shape;
      shape.sliding_window = window;
      shape.block_size = block_size;
      shape.dtype = block_size == 8 ? DType::kBF16 : DType::kI8;
      ExpectNear(shape, {1, 17, 100, 101, 256, 300}, 3);
    }
}

TEST(PagedDecode, MatchesTheReferenceWithCappedScores) {
  for (const float cap : {0.5f, 5.0f, 50.0f}) {
    PagedShape shape;
    shape.softcap = cap;
    shape.dtype = DType::kF16;
    ExpectNear(shape, {1, 33, 200}, 2);
  }
}

TEST(PagedDecode, MatchesTheReferenceAtALongContext) {
  PagedShape shape;
  shape.num_heads = 1;
  ExpectNear(shape, {4097, 3}, 6);
}

TEST(PagedDecode, FixedSplitsGiveARowTheSameBitsInEveryBatch) {
  for (const DType dtype : {DType::kBF16, DType::kF8E4M3}) {
    PagedShape shape;
    shape.dtype = dtype;
    AttentionUnderTest alone(shape, DecodesOf({290}));
    const std::vector<float> row = alone.Run({1, 128});
    EXPECT_LE(alone.WorstError(row), Tolerance(dtype));
    AttentionUnderTest batch(shape, DecodesOf({290, 17, 260, 128}));
    const std::vector<float> rows = batch.Run({5, 128});
    EXPECT_TRUE(std::equal(row.begin(), row.end(), rows.begin()));
    EXPECT_LE(batch.WorstError(rows), Tolerance(dtype));
  }
}

TEST(PagedDecode, RowsThatSeeNothingAreZeroAndOthersUntouched) {
  PagedShape shape;
  AttentionUnderTest test(shape, DecodesOf({20, 20, 20}));
  DecodeItem empty;
  empty.row = 1;
  DecodeItem seen;
  seen.row = 2;
  seen.table_begin = test.sequences()[2].table_begin;
  seen.length = 20;
  seen.end_tile = 2;
  const std::vector<float> out = test.RunDecodes({empty, seen}, {0, 2}, 0);
  const size_t cols = out.size() / 3;
  for (size_t i = 0; i < cols; ++i) {
    EXPECT_TRUE(std::isnan(out[i])) << i;
    EXPECT_EQ(out[cols + i], 0.0f) << i;
    EXPECT_FALSE(std::isnan(out[2 * cols + i])) << i;
  }
}

TEST(PagedDecode, RowsWhoseScoresAreAllMinusInfinityAreZero) {
  PagedShape shape;
  AttentionUnderTest test(shape, DecodesOf({300, 300}));
  // The second sequence's products are -1e60.
  std::fill(test.tokens(1).q.begin(), test.tokens(1).q.end(), 1e30f);
  std::fill(test.tokens(1).k.begin(), test.tokens(1).k.end(), -1e30f);
  test.Upload();
  for (const int32_t num_parts : {1, 4}) {  // whole and split
    const std::vector<float> out = test.Run({num_parts, 0});
    EXPECT_TRUE(std::all_of(out.begin() + static_cast<std::ptrdiff_t>(out.size() / 2), out.end(),
                            [](float value) { return value == 0; }));
  }
}

TEST(PagedDecode, AddressesBlocksBeyondFourGiB) {
  PagedShape shape;
  AttentionUnderTest test(shape, DecodesOf({70}));
  test.SetFirstBlock(1 << 20);  // of 8 KiB
  EXPECT_LE(test.WorstError(test.Run({2, 0})), Tolerance(shape.dtype));
}

TEST(PagedDecode, RefusesWhatNoKernelTakes) {
  float row[64] = {};
  const int32_t table[] = {0}, runs[] = {0, 0};
  const DecodeItem item;
  PagedDecodeArgs good;
  good.q = row;
  good.q_stride = 64;
  good.out = row;
  good.out_stride = 64;
  good.num_heads = 1;
  alignas(16) std::byte pool[4096] = {};
  good.kv = {pool, 4096, DType::kBF16, 16, 1, 64};
  good.block_tables = table;
  good.items = &item;
  good.runs = runs;
  good.num_parts = 1;
  good.scale = 0.125f;
  const auto code = [](const PagedDecodeArgs& args) {
    return LaunchPagedDecode(args, nullptr).code();
  };
  EXPECT_TRUE(CheckPagedDecode(good.kv, 1).ok());
  PagedDecodeArgs bad = good;
  bad.kv.dtype = DType::kF32;
  EXPECT_EQ(code(bad), absl::StatusCode::kUnimplemented);
  bad = good;
  bad.kv.head_dim = 72;
  EXPECT_EQ(code(bad), absl::StatusCode::kUnimplemented);
  bad = good;
  bad.kv.block_size = 24;
  EXPECT_EQ(code(bad), absl::StatusCode::kInvalidArgument);
  bad = good;
  bad.kv.num_kv_heads = 2;
  EXPECT_EQ(code(bad), absl::StatusCode::kInvalidArgument);
  bad = good;
  bad.q_stride = 62;
  EXPECT_EQ(code(bad), absl::StatusCode::kInvalidArgument);
  bad = good;
  bad.kv.block_stride = 4080;
  EXPECT_EQ(code(bad), absl::StatusCode::kInvalidArgument);
  bad = good;
  bad.scale = NAN;
  EXPECT_EQ(code(bad), absl::StatusCode::kInvalidArgument);
  bad = good;
  bad.softcap = -1;
  EXPECT_EQ(code(bad), absl::StatusCode::kInvalidArgument);
  bad = good;
  bad.num_parts = 0;
  EXPECT_EQ(code(bad), absl::StatusCode::kInvalidArgument);
  bad = good;
  bad.items = nullptr;
  EXPECT_EQ(code(bad), absl::StatusCode::kInvalidArgument);
}

TEST(PagedDecode, OccupancyCountsSharedMemory) {
  PagedKv kv = {nullptr, 0, DType::kBF16, 16, 8, 128};
  constexpr int32_t kH200 = 228 * 1024, kL4 = 100 * 1024;
  EXPECT_EQ(PagedDecodeBlocksPerMultiprocessor(kv, 32, kH200), 3);
  EXPECT_EQ(PagedDecodeBlocksPerMultiprocessor(kv, 32, kL4), 1);
  kv.head_dim = 256;
  EXPECT_EQ(PagedDecodeBlocksPerMultiprocessor(kv, 32, kL4), 1);
  EXPECT_EQ(PagedDecodeHeadTiles(128, 8), 1);
  EXPECT_EQ(PagedDecodeHeadTiles(128, 16), 1);
  EXPECT_EQ(PagedDecodeHeadTiles(128, 17), 2);
  EXPECT_EQ(PagedDecodeHeadTiles(256, 16), 2);
}

}  // namespace
}  // namespace octavo::cuda
