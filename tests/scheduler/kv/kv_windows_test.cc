// KvManager with groups of layers that see a window of the tokens only (kv.7).
#include <numeric>
#include <span>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/kv/kv_manager.h"

namespace octavo {
namespace {

using testing::ElementsAre;

// Blocks of 4 tokens; one group that sees all, one that sees 6.
class KvWindowsTest : public testing::Test {
 protected:
  void Lend(BlockTable* table, int64_t from, int64_t to) {
    std::vector<BlockId> added;
    std::vector<BlockReplacement> lent;
    ASSERT_TRUE(kv_.Reserve(table, to, &added));
    ASSERT_TRUE(kv_.ReserveWindows(table, from, to, &nothing_, &lent));
    kv_.CheckWindows(*table, to);
  }

  KvManager kv_{20, 4, {.enabled = true, .key = "secret"}, {0, 6}};
  BlockTable nothing_;
};

TEST_F(KvWindowsTest, ATableHasRowsOfOneBlockForEachGroup) {
  BlockTable table;
  std::vector<BlockId> added;
  ASSERT_TRUE(kv_.Reserve(&table, 9, &added));
  EXPECT_THAT(added, ElementsAre(1, 0, 2, 0, 3, 0));
  EXPECT_EQ(kv_.NumRows(table), 3);
  EXPECT_EQ(kv_.WindowsMissing(table, 0, 5), 2);
  std::vector<BlockReplacement> lent;
  ASSERT_TRUE(kv_.ReserveWindows(&table, 0, 5, &nothing_, &lent));
  EXPECT_THAT(lent, ElementsAre(BlockReplacement{1, 4}, BlockReplacement{3, 5}));
  EXPECT_THAT(table.blocks(), ElementsAre(1, 4, 2, 5, 3, 0));
  EXPECT_EQ(kv_.WindowsMissing(table, 5, 9), 1);
  kv_.CheckInvariants({&table});
}

TEST_F(KvWindowsTest, BlocksReturnWhenTheWindowHasLeftThem) {
  BlockTable table;
  Lend(&table, 0, 12);
  EXPECT_EQ(kv_.num_free(), 14);
  kv_.Slide(&table, 8, nullptr);  // position 8 sees 3 to 8
  EXPECT_EQ(kv_.num_free(), 14);
  EXPECT_EQ(kv_.BlocksSliding(table, 9), 1);
  kv_.Slide(&table, 9, nullptr);  // and 9 sees 4 to 9
  EXPECT_EQ(kv_.num_free(), 15);
  EXPECT_THAT(table.blocks(), ElementsAre(1, 0, 2, 5, 3, 6));
  EXPECT_EQ(kv_.NumExclusive(table), 5);
  kv_.Release(&table, 0);
  EXPECT_EQ(kv_.num_free(), 20);
}

TEST_F(KvWindowsTest, ADecodeNeedsABlockOfEachGroup) {
  BlockTable table;
  Lend(&table, 0, 8);
  EXPECT_EQ(kv_.BlocksToWrite(table, 7), 0);
  EXPECT_EQ(kv_.BlocksToWrite(table, 8), 2);
  std::vector<BlockId> added;
  std::vector<CopyOnWrite> copies;
  ASSERT_TRUE(kv_.ReserveToWrite(&table, 8, &nothing_, &added, &copies));
  EXPECT_THAT(added, ElementsAre(5, 6));
  EXPECT_TRUE(copies.empty());
}

TEST_F(KvWindowsTest, AForkCopiesTheLastBlockOfEachGroup) {  // kv.2
  BlockTable parent;
  Lend(&parent, 0, 6);
  BlockTable child;
  kv_.Fork(&parent, 2, &child);
  EXPECT_EQ(kv_.BlocksToWrite(child, 6), 2);
  std::vector<BlockId> added;
  std::vector<CopyOnWrite> copies;
  ASSERT_TRUE(kv_.ReserveToWrite(&child, 6, &nothing_, &added, &copies));
  ASSERT_EQ(copies.size(), 2u);
  EXPECT_EQ(copies[0].index, 2);
  EXPECT_EQ(copies[0].copy, (BlockCopy{2, 5}));
  EXPECT_EQ(copies[1].index, 3);
  EXPECT_EQ(copies[1].copy, (BlockCopy{4, 6}));
  EXPECT_EQ(kv_.BlocksToWrite(parent, 6), 0);
  kv_.CheckInvariants({&parent, &child});
}

TEST_F(KvWindowsTest, ASharedBlockReturnsWhenTheLastWindowHasLeftIt) {
  BlockTable parent;
  Lend(&parent, 0, 8);
  BlockTable child;
  kv_.Fork(&parent, 2, &child);
  kv_.Slide(&parent, 12, nullptr);
  EXPECT_EQ(kv_.num_free(), 16);
  kv_.Slide(&child, 12, nullptr);
  EXPECT_EQ(kv_.num_free(), 17);  // the first; 12 sees 7
}

TEST_F(KvWindowsTest, WhatWasPutAsideComesBackToItAndWhatWasBorrowedGoesFirst) {
  BlockTable spare;
  ASSERT_TRUE(kv_.ReserveSpare(&spare, 1));
  BlockTable table;
  std::vector<BlockId> added;
  std::vector<BlockReplacement> lent;
  ASSERT_TRUE(kv_.Reserve(&table, 12, &added));
  ASSERT_TRUE(kv_.ReserveWindows(&table, 0, 8, &spare, &lent));
  EXPECT_EQ(spare.num_blocks(), 0);
  EXPECT_EQ(spare.borrowed(), 1);
  const int64_t free = kv_.num_free();
  kv_.Slide(&table, 9, &spare);  // one block: the borrowed one
  EXPECT_EQ(kv_.num_free(), free + 1);
  EXPECT_EQ(spare.borrowed(), 0);
  kv_.Slide(&table, 13, &spare);
  EXPECT_EQ(kv_.num_free(), free + 1);
  EXPECT_EQ(spare.num_blocks(), 1);
  kv_.CheckInvariants({&table, &spare});
}

class KvWindowHitsTest : public KvWindowsTest {
 protected:
  static std::vector<TokenId> Count(int32_t count) {
    std::vector<TokenId> tokens(static_cast<size_t>(count));
    std::iota(tokens.begin(), tokens.end(), 0);
    return tokens;
  }
  // Computes `count` tokens in chunks of 4, committed one by one; its blocks stay cached.
  void Run(int32_t count) {
    BlockTable table;
    PrefixChain chain;
    const std::vector<TokenId> tokens = Count(count);
    kv_.EnableCaching(&chain, "", "");
    kv_.BeginChain(&chain, 0);
    for (int32_t at = 0; at < count; at += 4) {
      const int32_t end = std::min(at + 4, count);
      Lend(&table, at, end);
      kv_.Publish(table, tokens, end, &chain);
      kv_.Slide(&table, end, nullptr);
    }
    kv_.Release(&table, 0);
  }
  int64_t Match(int32_t count) {
    PrefixChain chain;
    kv_.EnableCaching(&chain, "", "");
    return kv_.Match(&chain, Count(count), count / 4);
  }
  void Take(int64_t blocks) {
    std::vector<BlockId> taken;
    ASSERT_TRUE(kv_.ReserveSpare(&taken_, blocks));
  }

  BlockTable taken_;
};

TEST_F(KvWindowHitsTest, ATableBeginsWithTheWindowOnly) {
  Run(16);
  EXPECT_EQ(kv_.num_cached(), 8);
  PrefixChain chain;
  kv_.EnableCaching(&chain, "", "");
  ASSERT_EQ(kv_.Match(&chain, Count(16), 4), 4);
  BlockTable table;
  kv_.Adopt(&table, chain.found);
  // Position 16 sees 11 to 16.
  for (const size_t left : {1, 3}) EXPECT_EQ(table.blocks()[left], kPaddingBlock);
  for (const size_t held : {0, 2, 4, 5, 6, 7}) EXPECT_NE(table.blocks()[held], kPaddingBlock);
  EXPECT_EQ(kv_.num_cached(), 2);
  kv_.CheckInvariants({&table});
}

TEST_F(KvWindowHitsTest, AHitNeedsEachBlockOfTheWindowBeforeItsEnd) {
  Run(16);
  // Freed first, so lent first: what windows left, then the sequence tail first, row by row.
  Take(12);  // the blocks that nobody used
  Take(1);   // the window of row 0
  EXPECT_EQ(Match(16), 4);
  Take(1);  // of row 1: a beginning of 4 rows sees rows 2 and 3
  EXPECT_EQ(Match(16), 4);
  Take(1);                  // of row 3
  EXPECT_EQ(Match(16), 0);  // one of 3 rows would see row 1, one of 2 and 1 also row 0
  kv_.CheckInvariants({&taken_});
}

TEST_F(KvWindowHitsTest, ALostBlockOfTheFirstGroupEndsItsRow) {
  Run(16);
  Take(14);  // all but rows 2 and 3, and the first group's of rows 0 and 1
  Take(2);   // row 3
  EXPECT_EQ(Match(16), 0);
  EXPECT_EQ(kv_.num_cached(), 4);
}

TEST(KvAllWindowed, AModelWithoutALayerThatSeesAllKeepsAWindowOnly) {
  KvManager kv(4, 4, {}, {5});
  BlockTable table;
  BlockTable nothing;
  std::vector<BlockId> added;
  std::vector<BlockReplacement> lent;
  ASSERT_TRUE(kv.Reserve(&table, 400, &added));  // takes none
  EXPECT_EQ(kv.num_free(), 4);
  for (int64_t at = 0; at < 400; at += 4) {
    ASSERT_TRUE(kv.ReserveWindows(&table, at, at + 4, &nothing, &lent)) << at;
    kv.CheckWindows(table, at + 4);
    kv.Slide(&table, at + 4, nullptr);
    EXPECT_GE(kv.num_free(), 3);
  }
}

TEST(KvWindowsDeathTest, GroupsThatSeeAllComeFirst) {
  EXPECT_DEATH(KvManager(4, 4, {}, {5, 0}), "groups that see all come first");
}

}  // namespace
}  // namespace octavo
