// Decodes that read the blocks they have in common once, on the emulated device against the double
// reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/worker/cuda/kernels/attention_testing.h"

namespace octavo::cuda {
namespace {

// Whatever can be shared is.
WorkListOptions Sharing(const PagedShape& shape, int32_t num_parts) {
  PagedKv kv;
  kv.dtype = shape.dtype;
  kv.num_kv_heads = shape.num_kv_heads;
  kv.head_dim = shape.head_dim;
  WorkListOptions options = {num_parts, 0};
  options.shared_rows = PagedDecodeSharedRows(kv, shape.num_heads);
  options.least_sharing_gain = 0;
  return options;
}

// `count` decodes of different lengths that begin with the same tokens.
std::vector<SequenceChunk> Sharers(int32_t count, int32_t shared) {
  std::vector<SequenceChunk> chunks;
  for (int32_t i = 0; i < count; ++i) {
    SequenceChunk chunk = {shared + 7 * i, 1};
    if (i > 0) chunk.like = 0, chunk.shared = shared;
    chunks.push_back(chunk);
  }
  return chunks;
}

// Rows that the lists let share.
int32_t ExpectNear(const PagedShape& shape, const std::vector<SequenceChunk>& chunks,
                   int32_t num_parts) {
  SCOPED_TRACE(Describe(shape));
  AttentionUnderTest test(shape, chunks);
  const WorkListOptions options = Sharing(shape, num_parts);
  EXPECT_LE(test.WorstError(test.Run(options)), Tolerance(shape.dtype));
  return static_cast<int32_t>(test.ListOf(options).shared_rows().size());
}

TEST(SharedDecode, MatchesTheReferenceForEveryNumberOfRowsAndBlocks) {
  PagedShape shape;
  shape.num_heads = 4;
  for (const int32_t blocks : {1, 2, 17})
    for (int32_t rows = 2; rows <= 9; ++rows) {
      SCOPED_TRACE(absl::StrCat(rows, " rows, ", blocks, " blocks"));
      // Eight rows fill an item, and the ninth would be alone in another.
      EXPECT_EQ(ExpectNear(shape, Sharers(rows, blocks * shape.block_size), 3), std::min(rows, 8));
    }
}

TEST(SharedDecode, MatchesTheReferenceForEveryGroupSize) {
  for (const auto& [heads, kv_heads] : {std::pair{2, 2}, {3, 1}, {4, 1}, {8, 1}, {20, 1}}) {
    PagedShape shape;
    shape.num_heads = heads;
    shape.num_kv_heads = kv_heads;
    EXPECT_EQ(ExpectNear(shape, Sharers(5, 80), 2), heads >= 8 ? 4 : 5);
  }
  // Query heads of a KV head in three blocks of threads, the last of them with 4.
  PagedShape shape;
  shape.num_heads = 20;
  shape.head_dim = 80;
  EXPECT_EQ(ExpectNear(shape, Sharers(4, 80), 2), 4);
}

TEST(SharedDecode, MatchesTheReferenceForEveryDtypeAndBlockSize) {
  const std::pair<DType, int32_t> shapes[] = {{DType::kBF16, 256},
                                              {DType::kF16, 128},
                                              {DType::kI8, 128},
                                              {DType::kF8E4M3, 96},
                                              {DType::kF8E5M2, 64}};
  int32_t block_size = 64;
  for (const auto& [dtype, head_dim] : shapes) {
    PagedShape shape;
    shape.dtype = dtype;
    shape.head_dim = head_dim;
    shape.block_size = block_size;
    EXPECT_EQ(ExpectNear(shape, Sharers(3, 192), 2), 3);
    block_size = block_size == 8 ? 64 : block_size / 2;
  }
}

TEST(SharedDecode, KeepsDifferentPrefixesApart) {
  PagedShape shape;
  // Two prefixes in turn, a sequence alone, and one of a few tokens.
  std::vector<SequenceChunk> chunks = {{70, 1}, {101, 1}, {150, 1}, {3, 1}};
  for (int32_t i = 0; i < 3; ++i) {
    chunks.push_back({66 + 9 * i, 1, 0, 64});
    chunks.push_back({100 + 20 * i, 1, 1, 96});
  }
  EXPECT_EQ(ExpectNear(shape, chunks, 3), 8);
  // Blocks of 8 tokens: of three in common, one whole tile is shared.
  shape.block_size = 8;
  EXPECT_EQ(ExpectNear(shape, {{30, 1}, {40, 1, 0, 24}}, 1), 2);
}

// A row whose window has left the first position reads alone; so does one beyond its end.
TEST(SharedDecode, SharesOnlyWhatWindowsSee) {
  for (const DType dtype : {DType::kBF16, DType::kI8}) {
    PagedShape shape;
    shape.dtype = dtype;
    shape.sliding_window = 100;
    const std::vector<SequenceChunk> chunks = {
        {99, 1}, {100, 1, 0, 64}, {64, 1, 0, 64}, {150, 1, 0, 64}, {80, 1, 0, 64}};
    EXPECT_EQ(ExpectNear(shape, chunks, 2), 3);
  }
}

TEST(SharedDecode, OneRowAloneHasTheBitsItHasWithoutSharing) {
  PagedShape shape;
  AttentionUnderTest test(shape, DecodesOf({300}));
  EXPECT_EQ(test.Run(Sharing(shape, 3)), test.Run({3, 0}));
}

// Shared tiles are split over parts, rings are used again, and rows end with the tile that they
// share or one token later.
TEST(SharedDecode, MatchesTheReferenceWhereSharedItemsAreSplit) {
  PagedShape shape;
  shape.num_heads = 2;
  for (const int32_t num_parts : {1, 5})
    EXPECT_EQ(ExpectNear(shape, {{640, 1}, {641, 1, 0, 640}, {655, 1, 0, 640}, {672, 1, 0, 640}},
                         num_parts),
              4);
}

}  // namespace
}  // namespace octavo::cuda
