#include "scheduler/kv/block_hash.h"

#include <set>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace octavo {
namespace {

const PrefixScope kScope = {.model_revision = "rev",
                            .adapter = "lora",
                            .kv_dtype = "bf16",
                            .block_size = 4,
                            .salt = "tenant"};
const std::vector<TokenId> kTokens = {1, 2, 3, 4};

TEST(BlockHasher, ARootCoversEveryFieldOfTheScopeAndTheKey) {  // kv.6
  const BlockHasher hasher;
  std::vector<PrefixScope> scopes(6, kScope);
  scopes[1].model_revision = "rev2";
  scopes[2].adapter = "";
  scopes[3].kv_dtype = "int8";
  scopes[4].block_size = 8;
  scopes[5].salt = "";
  std::set<std::pair<uint64_t, uint64_t>> roots;
  for (const PrefixScope& scope : scopes) {
    const BlockDigest root = hasher.Root("key", scope);
    roots.emplace(root.high, root.low);
  }
  const BlockDigest other_key = hasher.Root("yek", kScope);
  roots.emplace(other_key.high, other_key.low);
  EXPECT_EQ(roots.size(), 7u);
}

TEST(BlockHasher, FieldsAreTypedAndNeverMistakenForEachOther) {  // kv.6
  const BlockHasher hasher;
  // One name as an adapter or as a salt; one text cut at two places.
  EXPECT_NE(hasher.Root("k", {.adapter = "x"}), hasher.Root("k", {.salt = "x"}));
  EXPECT_NE(hasher.Root("k", {.model_revision = "ab", .adapter = "c"}),
            hasher.Root("k", {.model_revision = "a", .adapter = "bc"}));
  EXPECT_NE(hasher.Root("ka", {}), hasher.Root("k", {.model_revision = "a"}));
}

TEST(BlockHasher, ABlockCoversItsParentAndItsTokensInOrder) {
  const BlockHasher hasher;
  const BlockDigest root = hasher.Root("k", kScope);
  const BlockDigest block = hasher.Extend(root, kTokens);
  EXPECT_EQ(block, BlockHasher().Extend(root, kTokens));
  EXPECT_NE(block, hasher.Extend(block, kTokens));
  EXPECT_NE(block, hasher.Extend(root, std::vector<TokenId>{2, 1, 3, 4}));
  EXPECT_NE(block, root);
}

TEST(BlockHasher, IsSha256OfTheLittleEndianFields) {
  // printf 't' + 16 zero bytes + 01000000 02000000 | sha256sum, first 16 bytes.
  const BlockDigest digest = BlockHasher().Extend({}, std::vector<TokenId>{1, 2});
  EXPECT_EQ(digest.high, 0x52dfeee7ae583b12u);
  EXPECT_EQ(digest.low, 0xa946d23ca15b1fb7u);
}

TEST(BlockHasher, NarrowDigestsCollideAndRootsDoNot) {
  const BlockHasher hasher(1);
  std::set<uint64_t> blocks;
  for (TokenId token = 0; token < 50; ++token) {
    const BlockDigest digest = hasher.Extend({}, std::vector<TokenId>{token});
    EXPECT_EQ(digest.high, 0u);
    blocks.insert(digest.low);
  }
  EXPECT_EQ(blocks, (std::set<uint64_t>{0, 1}));
  EXPECT_EQ(hasher.Root("k", kScope), BlockHasher().Root("k", kScope));
}

}  // namespace
}  // namespace octavo
