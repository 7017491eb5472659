// Prefill attention, and mixed batches, on the emulated device against the double reference.
#include "worker/cuda/kernels/paged_prefill.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "tests/worker/cuda/kernels/attention_testing.h"

namespace octavo::cuda {
namespace {

void ExpectNear(const PagedShape& shape, const std::vector<SequenceChunk>& chunks) {
  ExpectNearReference(shape, chunks, {3, 0});
}

TEST(PagedPrefill, MatchesTheReferenceAtEdgeLengths) {
  PagedShape shape;
  shape.num_heads = 4;
  shape.num_kv_heads = 2;
  for (const int32_t block_size : {8, 16, 32, 64}) {
    shape.block_size = block_size;
    ExpectNear(shape, {{0, 2}, {0, 16}, {0, 17}, {0, 65}, {15, 2}, {47, 18}, {283, 17}});
  }
}

TEST(PagedPrefill, MatchesTheReferenceForEveryDtypeAndHeadDim) {
  for (const DType dtype : kCacheTypes)
    for (const int32_t head_dim : {64, 80, 96, 128, 256}) {
      PagedShape shape;
      shape.dtype = dtype;
      shape.head_dim = head_dim;
      shape.block_size = head_dim == 80 ? 8 : 64;
      ExpectNear(shape, {{0, 5}, {130, 24}});
    }
}

TEST(PagedPrefill, MatchesTheReferenceForEveryGroupSize) {
  for (const auto& [heads, kv_heads] :
       {std::pair{1, 1}, {2, 2}, {9, 3}, {4, 1}, {8, 1}, {20, 1}, {70, 1}}) {
    PagedShape shape;
    shape.num_heads = heads;
    shape.num_kv_heads = kv_heads;
    shape.dtype = heads == 9 ? DType::kI8 : DType::kBF16;
    ExpectNear(shape, {{30, 3}, {0, 9}});
  }
}

TEST(PagedPrefill, MatchesTheReferenceInSlidingWindows) {
  for (const int32_t window : {1, 16, 17, 100})
    for (const int32_t block_size : {8, 32}) {
      PagedShape shape;
      shape.sliding_window = window;
      shape.block_size = block_size;
      shape.dtype = block_size == 8 ? DType::kBF16 : DType::kI8;
      ExpectNear(shape, {{0, 30}, {90, 25}, {240, 40}});
    }
}

TEST(PagedPrefill, MatchesTheReferenceWithCappedScores) {
  for (const float cap : {0.5f, 5.0f, 50.0f}) {
    PagedShape shape;
    shape.softcap = cap;
    shape.dtype = DType::kF16;
    ExpectNear(shape, {{60, 20}});
  }
}

// Block tables pass through shared memory 128 entries at a time.
TEST(PagedPrefill, MatchesTheReferenceBehindLongBlockTables) {
  PagedShape shape;
  shape.num_heads = 1;
  shape.block_size = 8;
  ExpectNear(shape, {{2100, 3}});
  shape.sliding_window = 1100;
  ExpectNear(shape, {{2100, 3}});
}

TEST(PagedPrefill, MatchesTheReferenceInMixedBatches) {
  PagedShape shape;
  shape.num_heads = 6;
  shape.num_kv_heads = 2;
  ExpectNear(shape, {{40, 1}, {0, 33}, {299, 1}, {64, 20}, {0, 1}});
}

TEST(PagedPrefill, GivesARowTheSameBitsWhateverItsChunk) {
  for (const int32_t window : {0, 50})
    for (const DType dtype : {DType::kBF16, DType::kI8}) {
      PagedShape shape;
      shape.dtype = dtype;
      shape.sliding_window = window;
      AttentionUnderTest whole(shape, {{0, 150}});
      const std::vector<float> rows = whole.Run({1, 0});
      // Ends of chunks of other sizes, of the same sequence.
      for (const auto& [context, count] : {std::pair{140, 10}, {100, 50}, {63, 87}}) {
        AttentionUnderTest end(shape, {{context, count}});
        const std::vector<float> last = end.Run({1, 0});
        EXPECT_TRUE(std::equal(last.begin(), last.end(),
                               rows.end() - static_cast<std::ptrdiff_t>(last.size())))
            << Describe(shape) << " context " << context;
      }
    }
}

TEST(PagedPrefill, GivesAChunkTheSameBitsInEveryBatch) {
  for (const DType dtype : {DType::kBF16, DType::kF8E5M2}) {
    PagedShape shape;
    shape.dtype = dtype;
    AttentionUnderTest alone(shape, {{70, 25}});
    const std::vector<float> rows = alone.Run({1, 128});
    AttentionUnderTest batch(shape, {{70, 25}, {200, 1}, {0, 40}, {90, 3}});
    const std::vector<float> all = batch.Run({4, 128});
    EXPECT_TRUE(std::equal(rows.begin(), rows.end(), all.begin())) << Describe(shape);
  }
}

TEST(PagedPrefill, RowsWhoseScoresAreAllMinusInfinityAreZero) {
  PagedShape shape;
  AttentionUnderTest test(shape, {{70, 20}});
  std::fill(test.tokens(0).q.begin(), test.tokens(0).q.end(), 1e30f);
  std::fill(test.tokens(0).k.begin(), test.tokens(0).k.end(), -1e30f);
  test.Upload();
  const std::vector<float> out = test.Run({1, 0});
  EXPECT_TRUE(std::all_of(out.begin(), out.end(), [](float value) { return value == 0; }));
}

TEST(PagedPrefill, AddressesBlocksBeyondFourGiB) {
  PagedShape shape;
  AttentionUnderTest test(shape, {{50, 20}});
  test.SetFirstBlock(1 << 20);  // of 8 KiB
  EXPECT_LE(test.WorstError(test.Run({1, 0})), Tolerance(shape.dtype));
}

TEST(PagedPrefill, RefusesWhatNoKernelTakes) {
  PagedPrefillArgs args;
  EXPECT_EQ(LaunchPagedPrefill(args, nullptr).code(), absl::StatusCode::kUnimplemented)
      << "head_dim 0";
  args.kv.head_dim = 64;
  args.kv.num_kv_heads = 1;
  args.num_heads = 1;
  EXPECT_EQ(LaunchPagedPrefill(args, nullptr).code(), absl::StatusCode::kInvalidArgument)
      << "no cache";
  args.kv.dtype = DType::kF32;
  EXPECT_EQ(LaunchPagedPrefill(args, nullptr).code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace octavo::cuda
