#include "scheduler/kv/prefix_index.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace octavo {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Tokens = std::vector<TokenId>;

constexpr BlockDigest kRoot = {100, 1};
constexpr BlockDigest kOtherRoot = {100, 2};
constexpr BlockDigest kA = {1, 1};
constexpr BlockDigest kB = {1, 2};

class PrefixIndexTest : public testing::Test {
 protected:
  PrefixRef Publish(BlockId block, const BlockDigest& digest, PrefixRef parent,
                    const Tokens& tokens, const BlockDigest& root = kRoot) {
    displaced_.clear();
    const BlockId row[] = {block};
    const PrefixRef ref = index_.Publish(row, digest, root, parent, tokens, &displaced_);
    index_.CheckInvariants();
    return ref;
  }
  BlockId Find(const BlockDigest& digest, PrefixRef parent, const Tokens& tokens,
               const BlockDigest& root = kRoot) const {
    return index_.Find(digest, root, parent, tokens).block;
  }

  PrefixIndex index_{8, 2};
  std::vector<BlockId> displaced_;
};

TEST_F(PrefixIndexTest, FindsABlockByDigestParentAndTokens) {
  const PrefixRef first = Publish(3, kA, {}, {1, 2});
  const PrefixRef second = Publish(5, kB, first, {3, 4});
  EXPECT_EQ(index_.Find(kA, kRoot, {}, Tokens{1, 2}), first);
  EXPECT_EQ(index_.Find(kB, kRoot, first, Tokens{3, 4}), second);
  EXPECT_EQ(Find(kB, {}, {3, 4}), kPaddingBlock);
  EXPECT_EQ(index_.num_blocks(), 2);
}

TEST_F(PrefixIndexTest, AHitIsConfirmedByTokensParentAndRoot) {  // kv.3
  const PrefixRef first = Publish(3, kA, {}, {1, 2});
  // The digest says yes; the content says no.
  EXPECT_EQ(Find(kA, {}, {1, 3}), kPaddingBlock);
  EXPECT_EQ(Find(kA, {}, {1, 2}, kOtherRoot), kPaddingBlock);
  EXPECT_EQ(Find(kA, first, {1, 2}), kPaddingBlock);
}

TEST_F(PrefixIndexTest, AChildOfAParentThatWasReplacedIsNotFound) {
  const PrefixRef first = Publish(3, kA, {}, {1, 2});
  Publish(4, kB, first, {7, 7});
  index_.Remove(3, &displaced_);
  // Another prefix takes the digest and even the block of the first one.
  const PrefixRef impostor = Publish(3, kA, {}, {8, 9});
  EXPECT_EQ(Find(kB, impostor, {7, 7}), kPaddingBlock);
  EXPECT_FALSE(index_.Alive(first));
  EXPECT_TRUE(index_.Alive(impostor));
}

TEST_F(PrefixIndexTest, TheSameContentIsEnteredOnce) {
  const PrefixRef first = Publish(3, kA, {}, {1, 2});
  EXPECT_EQ(Publish(6, kA, {}, {1, 2}), first);
  EXPECT_FALSE(index_.Contains(6));
}

TEST_F(PrefixIndexTest, ANewContentTakesTheDigestOver) {
  Publish(3, kA, {}, {1, 2});
  EXPECT_THAT(displaced_, IsEmpty());
  Publish(4, kA, {}, {5, 6});
  EXPECT_THAT(displaced_, ElementsAre(3));
  EXPECT_FALSE(index_.Contains(3));
  EXPECT_EQ(Find(kA, {}, {5, 6}), 4);
  EXPECT_EQ(index_.num_blocks(), 1);
}

TEST_F(PrefixIndexTest, ClearEndsEveryReference) {
  const PrefixRef first = Publish(3, kA, {}, {1, 2});
  index_.Clear();
  EXPECT_FALSE(index_.Alive(first));
  EXPECT_EQ(Find(kA, {}, {1, 2}), kPaddingBlock);
  EXPECT_EQ(index_.num_blocks(), 0);
  const PrefixRef again = Publish(3, kA, {}, {1, 2});
  EXPECT_NE(again.serial, first.serial);
}

class PrefixRowsTest : public testing::Test {
 protected:
  PrefixRef Publish(std::vector<BlockId> row, const BlockDigest& digest, const Tokens& tokens) {
    displaced_.clear();
    const PrefixRef ref = index_.Publish(row, digest, kRoot, {}, tokens, &displaced_);
    index_.CheckInvariants();
    return ref;
  }

  PrefixIndex index_{12, 2, 3};
  std::vector<BlockId> displaced_;
};

TEST_F(PrefixRowsTest, ARowHasABlockOfEachGroup) {  // kv.7
  const PrefixRef ref = Publish({3, 4, kPaddingBlock}, kA, {1, 2});
  EXPECT_EQ(index_.BlockOf(ref, 0), 3);
  EXPECT_EQ(index_.BlockOf(ref, 1), 4);
  EXPECT_EQ(index_.BlockOf(ref, 2), kPaddingBlock);
  EXPECT_TRUE(index_.Contains(4));
  EXPECT_EQ(index_.num_blocks(), 2);
}

TEST_F(PrefixRowsTest, ALostBlockIsReplacedByWhoComputesItAgain) {
  const PrefixRef ref = Publish({3, 4, 5}, kA, {1, 2});
  index_.Remove(4, &displaced_);
  EXPECT_THAT(displaced_, IsEmpty());
  EXPECT_TRUE(index_.Alive(ref));
  EXPECT_EQ(index_.BlockOf(ref, 1), kPaddingBlock);
  EXPECT_EQ(Publish({6, 7, 8}, kA, {1, 2}), ref);
  EXPECT_EQ(index_.BlockOf(ref, 1), 7);
  EXPECT_FALSE(index_.Contains(6));
  EXPECT_FALSE(index_.Contains(8));
}

TEST_F(PrefixRowsTest, ARowEndsWithItsFirstBlock) {
  const PrefixRef ref = Publish({3, 4, 5}, kA, {1, 2});
  index_.Remove(3, &displaced_);
  EXPECT_THAT(displaced_, ElementsAre(4, 5));
  EXPECT_FALSE(index_.Alive(ref));
  EXPECT_EQ(index_.num_blocks(), 0);
  index_.CheckInvariants();
}

TEST_F(PrefixRowsTest, AnotherContentDisplacesTheWholeRow) {
  Publish({3, 4, 5}, kA, {1, 2});
  Publish({6, 7, kPaddingBlock}, kA, {8, 9});
  EXPECT_THAT(displaced_, ElementsAre(3, 4, 5));
  // Blocks that are in a row already leave it for the new one.
  Publish({7, 6, 3}, kB, {8, 8});
  EXPECT_THAT(displaced_, ElementsAre(7, 6));
  EXPECT_EQ(index_.num_blocks(), 3);
}

}  // namespace
}  // namespace octavo
