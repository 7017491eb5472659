#include "scheduler/kv/block_pool.h"

#include <deque>
#include <map>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace octavo {
namespace {

TEST(BlockPool, LendsEveryBlockOnceAndNeverThePadding) {  // kv.1
  BlockPool pool(4);
  EXPECT_EQ(pool.num_blocks(), 4);
  std::vector<BlockId> lent;
  while (const std::optional<BlockId> block = pool.Lend()) lent.push_back(*block);
  EXPECT_EQ(lent, (std::vector<BlockId>{1, 2, 3, 4}));
  EXPECT_EQ(pool.num_free(), 0);
  pool.CheckInvariants();
}

TEST(BlockPool, ReusesLeastRecentlyFreed) {  // kv.5
  BlockPool pool(3);
  for (int i = 0; i < 3; ++i) pool.Lend();
  EXPECT_TRUE(pool.Release(2));
  EXPECT_TRUE(pool.Release(3));
  EXPECT_TRUE(pool.Release(1));
  EXPECT_EQ(pool.Lend(), 2);
  EXPECT_EQ(pool.Lend(), 3);
  EXPECT_EQ(pool.Lend(), 1);
}

TEST(BlockPool, ReusesWhatIsWorthlessFirst) {
  BlockPool pool(4);
  for (int i = 0; i < 3; ++i) pool.Lend();
  pool.Release(1);
  pool.Release(2, /*worthless=*/true);
  pool.Release(3, /*worthless=*/true);
  pool.CheckInvariants();
  for (const BlockId expected : {3, 2, 4, 1}) EXPECT_EQ(pool.Lend(), expected);
  EXPECT_EQ(pool.Lend(), std::nullopt);
  pool.Release(2, /*worthless=*/true);  // into an empty list
  pool.CheckInvariants();
  EXPECT_EQ(pool.Lend(), 2);
}

TEST(BlockPool, SharedBlockIsFreeAfterItsLastRelease) {
  BlockPool pool(2);
  const BlockId block = *pool.Lend();
  pool.Share(block);
  EXPECT_EQ(pool.ref_count(block), 2);
  EXPECT_FALSE(pool.Release(block));
  EXPECT_EQ(pool.num_free(), 1);
  EXPECT_TRUE(pool.Release(block));
  EXPECT_EQ(pool.num_free(), 2);
}

TEST(BlockPool, SharingAFreeBlockTakesItOutOfTheMiddleOfTheList) {
  BlockPool pool(5);
  pool.Share(3);
  EXPECT_EQ(pool.ref_count(3), 1);
  pool.CheckInvariants();
  std::vector<BlockId> lent;
  while (const std::optional<BlockId> block = pool.Lend()) lent.push_back(*block);
  EXPECT_EQ(lent, (std::vector<BlockId>{1, 2, 4, 5}));
}

TEST(BlockPool, EmptyPoolLendsNothing) {
  BlockPool pool(0);
  EXPECT_EQ(pool.Lend(), std::nullopt);
  pool.CheckInvariants();
}

TEST(BlockPoolDeathTest, DoubleFreeEndsTheProcess) {
  BlockPool pool(2);
  const BlockId block = *pool.Lend();
  pool.Release(block);
  EXPECT_DEATH(pool.Release(block), "double free of block 1");
  EXPECT_DEATH(pool.Release(kPaddingBlock), "block=0");
  EXPECT_DEATH(pool.Release(3), "block=3");
}

TEST(BlockPool, AgreesWithANaiveModelOnRandomCalls) {
  constexpr BlockId kBlocks = 17;
  BlockPool pool(kBlocks);
  std::deque<BlockId> free;
  std::map<BlockId, int> counts;
  for (BlockId block = 1; block <= kBlocks; ++block) free.push_back(block);
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    const BlockId block = static_cast<BlockId>(1 + random() % kBlocks);
    switch (random() % 3) {
      case 0: {
        const std::optional<BlockId> lent = pool.Lend();
        ASSERT_EQ(lent.has_value(), !free.empty());
        if (!lent) break;
        ASSERT_EQ(*lent, free.front());
        free.pop_front();
        counts[*lent] = 1;
        break;
      }
      case 1:
        pool.Share(block);
        if (counts[block]++ == 0) std::erase(free, block);
        break;
      default:
        if (counts[block] == 0) break;
        ASSERT_EQ(pool.Release(block), counts[block] == 1);
        if (--counts[block] == 0) free.push_back(block);
    }
    ASSERT_EQ(pool.num_free(), static_cast<int64_t>(free.size()));
    ASSERT_EQ(pool.ref_count(block), counts[block]);
    pool.CheckInvariants();
  }
}

}  // namespace
}  // namespace octavo
