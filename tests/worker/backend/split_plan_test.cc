#include "worker/backend/split_plan.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace octavo {
namespace {

using ::testing::HasSubstr;

// SmolLM2-135M in Q4_1.
constexpr SplitDimensions kSmol = {.num_heads = 9,
                                   .num_kv_heads = 3,
                                   .head_dim = 64,
                                   .intermediate_size = 1536,
                                   .vocab_size = 49152,
                                   .output_block = 32,
                                   .down_block = 32};

std::vector<RankSplit> SplitAll(const SplitDimensions& dimensions, int32_t size) {
  std::vector<RankSplit> splits;
  for (int32_t rank = 0; rank < size; ++rank) {
    const absl::StatusOr<RankSplit> split = SplitForRank(dimensions, {rank, size});
    EXPECT_TRUE(split.ok()) << split.status();
    splits.push_back(split.value_or(RankSplit{}));
  }
  return splits;
}

std::string ErrorOf(const SplitDimensions& dimensions, int32_t size, int32_t rank = 0) {
  return std::string(SplitForRank(dimensions, {rank, size}).status().message());
}

// Every element has one owner; nobody has nothing.
void ExpectCovered(const std::vector<RankSplit>& splits, IndexRange RankSplit::*range,
                   int64_t total) {
  int64_t next = 0;
  for (const RankSplit& split : splits) {
    EXPECT_EQ((split.*range).begin, next);
    EXPECT_GT((split.*range).size(), 0);
    next = (split.*range).end;
  }
  EXPECT_EQ(next, total);
}

TEST(SplitPlan, OneRankHasEverything) {
  const RankSplit split = SplitAll(kSmol, 1)[0];
  EXPECT_EQ(split.kv_heads, (IndexRange{0, 3}));
  EXPECT_EQ(split.heads, (IndexRange{0, 9}));
  EXPECT_EQ(split.ffn, (IndexRange{0, 1536}));
  EXPECT_EQ(split.vocab, (IndexRange{0, 49152}));
}

TEST(SplitPlan, UnevenRunsOfKvHeadsTakeTheirQueryHeadsAlong) {
  const std::vector<RankSplit> splits = SplitAll(kSmol, 2);
  EXPECT_EQ(splits[0].kv_heads, (IndexRange{0, 2}));
  EXPECT_EQ(splits[0].heads, (IndexRange{0, 6}));
  EXPECT_EQ(splits[1].kv_heads, (IndexRange{2, 3}));
  EXPECT_EQ(splits[1].heads, (IndexRange{6, 9}));
  EXPECT_EQ(splits[0].ffn.size(), 768);
  EXPECT_EQ(splits[0].vocab.size(), 24576);
}

TEST(SplitPlan, CoversEverythingOnceForAnyNumberOfRanks) {
  SplitDimensions large = {.num_heads = 64,
                           .num_kv_heads = 8,
                           .head_dim = 128,
                           .intermediate_size = 28672,
                           .vocab_size = 128256,
                           .output_block = 256,
                           .down_block = 256};
  for (const int32_t size : {1, 2, 3, 4, 5, 6, 7, 8}) {
    const std::vector<RankSplit> splits = SplitAll(large, size);
    ExpectCovered(splits, &RankSplit::kv_heads, 8);
    ExpectCovered(splits, &RankSplit::heads, 64);
    ExpectCovered(splits, &RankSplit::ffn, 28672);
    ExpectCovered(splits, &RankSplit::vocab, 128256);
    for (const RankSplit& split : splits) {
      EXPECT_EQ(split.heads.begin, split.kv_heads.begin * 8);
      EXPECT_EQ(split.ffn.begin % 256, 0);
      EXPECT_LE(split.kv_heads.size(), splits[0].kv_heads.size());
    }
  }
}

TEST(SplitPlan, FewerKvHeadsThanRanksAreReplicated) {
  SplitDimensions two = kSmol;
  two.num_heads = 8;
  two.num_kv_heads = 2;
  const std::vector<RankSplit> splits = SplitAll(two, 3);  // two ranks share head 0
  ExpectCovered(splits, &RankSplit::heads, 8);
  EXPECT_EQ(splits[0].kv_heads, (IndexRange{0, 1}));
  EXPECT_EQ(splits[1].kv_heads, (IndexRange{0, 1}));
  EXPECT_EQ(splits[2].kv_heads, (IndexRange{1, 2}));
  EXPECT_EQ(splits[0].heads, (IndexRange{0, 2}));
  EXPECT_EQ(splits[1].heads, (IndexRange{2, 4}));
  EXPECT_EQ(splits[2].heads, (IndexRange{4, 8}));

  SplitDimensions one = kSmol;  // Gemma 3 270M: 4 query heads on one KV head
  one.num_heads = 4;
  one.num_kv_heads = 1;
  ExpectCovered(SplitAll(one, 3), &RankSplit::heads, 4);
  EXPECT_EQ(SplitAll(one, 3)[0].heads.size(), 2);
  EXPECT_THAT(ErrorOf(one, 5), HasSubstr("4 query heads, 4 for each of 1 KV heads, are too few"));
}

TEST(SplitPlan, ColumnsAreCutBetweenStorageBlocks) {
  SplitDimensions odd = kSmol;
  odd.intermediate_size = 5 * 32;
  const std::vector<RankSplit> splits = SplitAll(odd, 3);
  ExpectCovered(splits, &RankSplit::ffn, 160);
  EXPECT_EQ(splits[0].ffn, (IndexRange{0, 64}));
  EXPECT_EQ(splits[1].ffn, (IndexRange{64, 128}));
  EXPECT_EQ(splits[2].ffn, (IndexRange{128, 160}));
  odd.intermediate_size = 2 * 32;
  EXPECT_THAT(ErrorOf(odd, 3), HasSubstr("64 columns of the MLP in units of 32 are too few for 3"));

  SplitDimensions split_block = kSmol;
  split_block.head_dim = 80;  // 3 heads end at column 240, inside a block of 32
  split_block.num_heads = 3;
  EXPECT_THAT(ErrorOf(split_block, 3), HasSubstr("column 80 of the attention output's weight"));
}

TEST(SplitPlan, ElementsStoredAloneMayBeCutAnywhereWhenTheyAreFew) {
  SplitDimensions tiny = kSmol;
  tiny.output_block = tiny.down_block = 1;
  tiny.intermediate_size = 48;
  tiny.vocab_size = 65;
  const std::vector<RankSplit> splits = SplitAll(tiny, 3);
  ExpectCovered(splits, &RankSplit::ffn, 48);
  ExpectCovered(splits, &RankSplit::vocab, 65);
  EXPECT_EQ(splits[0].ffn.size(), 16);
  tiny.vocab_size = 2;
  EXPECT_THAT(ErrorOf(tiny, 3), HasSubstr("2 tokens of the vocabulary"));
}

TEST(SplitPlan, RefusesPlacesThatCannotBe) {
  EXPECT_THAT(ErrorOf(kSmol, 0), HasSubstr("a group of 0 ranks"));
  EXPECT_THAT(ErrorOf(kSmol, 65), HasSubstr("a group of 65 ranks"));
  EXPECT_THAT(ErrorOf(kSmol, 2, 2), HasSubstr("rank 2; it must be between 0 and 1"));
  EXPECT_THAT(ErrorOf(kSmol, 2, -1), HasSubstr("rank -1"));
}

}  // namespace
}  // namespace octavo
