#include "scheduler/kv/prefix_index.h"

#include <vector>

#include "gtest/gtest.h"

namespace octavo {
namespace {

using Tokens = std::vector<TokenId>;

constexpr BlockDigest kRoot = {100, 1};
constexpr BlockDigest kOtherRoot = {100, 2};
constexpr BlockDigest kA = {1, 1};
constexpr BlockDigest kB = {1, 2};

class PrefixIndexTest : public testing::Test {
 protected:
  PrefixRef Publish(BlockId block, const BlockDigest& digest, PrefixRef parent,
                    const Tokens& tokens, const BlockDigest& root = kRoot) {
    const PrefixRef ref = index_.Publish(block, digest, root, parent, tokens, &displaced_);
    index_.CheckInvariants();
    return ref;
  }
  BlockId Find(const BlockDigest& digest, PrefixRef parent, const Tokens& tokens,
               const BlockDigest& root = kRoot) const {
    return index_.Find(digest, root, parent, tokens).block;
  }

  PrefixIndex index_{8, 2};
  BlockId displaced_ = kPaddingBlock;
};

TEST_F(PrefixIndexTest, FindsABlockByDigestParentAndTokens) {
  const PrefixRef first = Publish(3, kA, {}, {1, 2});
  const PrefixRef second = Publish(5, kB, first, {3, 4});
  EXPECT_EQ(index_.Find(kA, kRoot, {}, Tokens{1, 2}), first);
  EXPECT_EQ(index_.Find(kB, kRoot, first, Tokens{3, 4}), second);
  EXPECT_EQ(Find(kB, {}, {3, 4}), kPaddingBlock);
  EXPECT_EQ(index_.size(), 2);
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
  index_.Remove(3);
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
  EXPECT_EQ(displaced_, kPaddingBlock);
  Publish(4, kA, {}, {5, 6});
  EXPECT_EQ(displaced_, 3);
  EXPECT_FALSE(index_.Contains(3));
  EXPECT_EQ(Find(kA, {}, {5, 6}), 4);
  EXPECT_EQ(index_.size(), 1);
}

TEST_F(PrefixIndexTest, ClearEndsEveryReference) {
  const PrefixRef first = Publish(3, kA, {}, {1, 2});
  index_.Clear();
  EXPECT_FALSE(index_.Alive(first));
  EXPECT_EQ(Find(kA, {}, {1, 2}), kPaddingBlock);
  EXPECT_EQ(index_.size(), 0);
  const PrefixRef again = Publish(3, kA, {}, {1, 2});
  EXPECT_NE(again.serial, first.serial);
}

}  // namespace
}  // namespace octavo
