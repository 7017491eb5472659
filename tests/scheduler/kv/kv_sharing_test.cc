// KvManager with a prefix index: hits, eviction, copies before writes.
#include <numeric>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "scheduler/kv/kv_manager.h"

namespace octavo {
namespace {

// A table that computes tokens, as a sequence does.
struct Sequence {
  BlockTable table;
  PrefixChain chain;
  std::vector<TokenId> tokens;
};

std::vector<TokenId> Count(TokenId first, int32_t count) {
  std::vector<TokenId> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

class KvSharingTest : public testing::Test {
 protected:
  // Blocks of 4 tokens. Returns the tokens that were found.
  int64_t Begin(Sequence* sequence, std::vector<TokenId> tokens, absl::string_view salt = "") {
    sequence->tokens = std::move(tokens);
    kv_.EnableCaching(&sequence->chain, "", salt);
    const int64_t found = kv_.Match(&sequence->chain, sequence->tokens,
                                    (static_cast<int64_t>(sequence->tokens.size()) - 1) / 4);
    kv_.Adopt(&sequence->table, sequence->chain.found);
    std::vector<BlockId> added;
    EXPECT_TRUE(
        kv_.Reserve(&sequence->table, static_cast<int64_t>(sequence->tokens.size()), &added));
    kv_.BeginChain(&sequence->chain, found);
    return found * 4;
  }
  void Commit(Sequence* sequence) {
    kv_.Publish(sequence->table, sequence->tokens, static_cast<int64_t>(sequence->tokens.size()),
                &sequence->chain);
  }
  void Run(std::vector<TokenId> tokens, absl::string_view salt = "") {
    Sequence sequence;
    Begin(&sequence, std::move(tokens), salt);
    Commit(&sequence);
    kv_.Release(&sequence.table, 0);
    kv_.CheckInvariants({});
  }

  KvManager kv_{8, 4, {.enabled = true, .key = "secret"}};
};

TEST_F(KvSharingTest, NothingIsFoundBeforeItIsCommitted) {  // kv.3
  Sequence a, b;
  EXPECT_EQ(Begin(&a, Count(0, 10)), 0);
  EXPECT_EQ(Begin(&b, Count(0, 10)), 0);
  Commit(&a);
  kv_.Release(&b.table, 0);
  b = {};
  EXPECT_EQ(Begin(&b, Count(0, 10)), 8);  // two full blocks; the third has two tokens
  EXPECT_EQ(b.table.blocks()[0], a.table.blocks()[0]);
  EXPECT_NE(b.table.blocks()[2], a.table.blocks()[2]);
  EXPECT_EQ(kv_.num_saved(), 2);
  EXPECT_EQ(kv_.num_shared(), 2);
  kv_.CheckInvariants({&a.table, &b.table});
}

TEST_F(KvSharingTest, AtLeastOneTokenIsLeftToCompute) {
  Run(Count(0, 8));
  Sequence again;
  EXPECT_EQ(Begin(&again, Count(0, 8)), 4);
  kv_.CheckInvariants({&again.table});
}

TEST_F(KvSharingTest, AFreedBlockIsFoundUntilItIsLentAgainLeastRecentlyUsedFirst) {  // kv.5
  Run(Count(0, 8));    // blocks 1, 2; freed tail first: 2, 1
  Run(Count(50, 12));  // blocks 3, 4, 5
  EXPECT_EQ(kv_.num_cached(), 5);
  EXPECT_EQ(kv_.num_free(), 8);
  Sequence fresh;
  Begin(&fresh, Count(90, 14));  // 6, 7, 8, and the least recently freed of the others: 2
  EXPECT_EQ(fresh.table.blocks(), (std::vector<BlockId>{6, 7, 8, 2}));
  EXPECT_EQ(kv_.evictions(), 1u);
  EXPECT_EQ(kv_.num_cached(), 4);
  Sequence first, second;
  EXPECT_EQ(Begin(&first, Count(0, 9)), 4);  // its head outlived its tail
  kv_.CheckInvariants({&fresh.table, &first.table});
}

TEST_F(KvSharingTest, AFoundBlockThatIsFreeLeavesTheFreeList) {
  Run(Count(0, 8));
  Sequence hit;
  EXPECT_EQ(Begin(&hit, Count(0, 9)), 8);
  EXPECT_EQ(kv_.num_cached(), 0);
  EXPECT_EQ(kv_.num_free(), 5);
  EXPECT_EQ(kv_.saved_total(), 0u);  // reused, not shared
}

TEST_F(KvSharingTest, SaltsNeverShare) {  // kv.6
  Run(Count(0, 9), "alice");
  Sequence bob, alice;
  EXPECT_EQ(Begin(&bob, Count(0, 9), "bob"), 0);
  EXPECT_EQ(Begin(&alice, Count(0, 9), "alice"), 8);
}

TEST_F(KvSharingTest, AFlushedPrefixIsNotFoundNorContinued) {
  Sequence running;
  Begin(&running, Count(0, 6));
  Commit(&running);
  EXPECT_EQ(kv_.FlushCache(), 1);
  // What it computes on top of flushed blocks is not published either.
  for (TokenId token = 6; token < 12; ++token) running.tokens.push_back(token);
  std::vector<BlockId> added;
  ASSERT_TRUE(kv_.Reserve(&running.table, 12, &added));
  Commit(&running);
  Sequence other;
  EXPECT_EQ(Begin(&other, Count(0, 13)), 0);
  Commit(&other);
  kv_.Release(&other.table, 0);
  EXPECT_EQ(kv_.num_cached(), 3);
  kv_.CheckInvariants({&running.table});
}

TEST_F(KvSharingTest, AForkCopiesTheSharedBlockBeforeItsFirstWrite) {  // kv.2
  Sequence parent;
  Begin(&parent, Count(0, 6));
  BlockTable child, spare;
  kv_.Fork(&parent.table, 2, &child);
  EXPECT_EQ(kv_.num_saved(), 2);
  EXPECT_EQ(kv_.BlocksToWrite(child, 6), 1);
  std::vector<BlockId> added;
  std::vector<CopyOnWrite> copies;
  ASSERT_TRUE(kv_.ReserveToWrite(&child, 6, &spare, &added, &copies));
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0].index, 1);
  EXPECT_EQ(copies[0].copy, (BlockCopy{2, 3}));
  EXPECT_EQ(child.blocks(), (std::vector<BlockId>{1, 3}));
  EXPECT_TRUE(added.empty());
  // The last holder writes in place.
  EXPECT_EQ(kv_.BlocksToWrite(parent.table, 6), 0);
  EXPECT_EQ(kv_.copies_on_write(), 1u);
  kv_.CheckInvariants({&parent.table, &child});
  kv_.CheckWritable(child, 6);
  kv_.CheckWritable(parent.table, 6);
}

TEST_F(KvSharingTest, ACopyIsAllOrNothingAndTakesWhatWasPutAsideFirst) {  // kv.4
  Sequence parent;
  Begin(&parent, Count(0, 6));
  BlockTable child, spare;
  kv_.Fork(&parent.table, 2, &child);
  ASSERT_TRUE(kv_.ReserveSpare(&spare, 6));
  EXPECT_FALSE(kv_.ReserveSpare(&spare, 1));
  EXPECT_EQ(kv_.num_free(), 0);
  std::vector<BlockId> added;
  std::vector<CopyOnWrite> copies;
  BlockTable nothing;
  EXPECT_FALSE(kv_.ReserveToWrite(&child, 6, &nothing, &added, &copies));
  EXPECT_TRUE(copies.empty());
  EXPECT_EQ(child.blocks()[1], 2);
  EXPECT_TRUE(kv_.ReserveToWrite(&child, 6, &spare, &added, &copies));
  EXPECT_EQ(spare.num_blocks(), 5);
  kv_.CheckInvariants({&parent.table, &child, &spare});
}

// The copy would read the block after the steps of the ended table gave it back.
TEST_F(KvSharingTest, ABlockIsNotCopiedForATableThatHasEnded) {  // life.1
  Sequence parent;
  Begin(&parent, Count(0, 6));
  BlockTable child;
  kv_.Fork(&parent.table, 2, &child);
  kv_.Release(&child, 1);
  EXPECT_EQ(kv_.BlocksToWrite(parent.table, 6), 0);
  std::vector<BlockId> added;
  std::vector<CopyOnWrite> copies;
  BlockTable spare;
  EXPECT_TRUE(kv_.ReserveToWrite(&parent.table, 6, &spare, &added, &copies));
  EXPECT_TRUE(copies.empty());
  kv_.CommitStep(1);
  kv_.CheckInvariants({&parent.table});
  EXPECT_EQ(kv_.num_free(), 6);
}

TEST_F(KvSharingTest, SharedBlocksOfReleasedTablesAreDeferredOnce) {  // life.1
  Sequence parent;
  Begin(&parent, Count(0, 8));
  BlockTable child;
  kv_.Fork(&parent.table, 2, &child);
  kv_.Release(&parent.table, 1);
  EXPECT_EQ(kv_.num_deferred(), 0);  // the child still runs
  kv_.Release(&child, 2);
  EXPECT_EQ(kv_.num_deferred(), 2);
  kv_.CommitStep(1);
  EXPECT_EQ(kv_.num_deferred(), 2);
  kv_.CheckInvariants({});
  kv_.CommitStep(2);
  EXPECT_EQ(kv_.num_free(), 8);
}

TEST_F(KvSharingTest, ADeferredBlockThatIsFoundDoesNotTurnFree) {
  Sequence a, b;
  Begin(&a, Count(0, 9));
  Commit(&a);
  kv_.Release(&a.table, 1);
  EXPECT_EQ(kv_.num_deferred(), 3);
  EXPECT_EQ(Begin(&b, Count(0, 9)), 8);
  EXPECT_EQ(kv_.num_deferred(), 1);
  kv_.CommitStep(1);
  kv_.CheckInvariants({&b.table});
  EXPECT_EQ(kv_.num_free(), 5);
}

TEST_F(KvSharingTest, ABlockWhoseFoundParentWasLentAgainIsPublishedWithItsOwn) {
  Sequence a, b;
  Begin(&a, Count(0, 4));
  Begin(&b, Count(0, 4));  // the same, computed twice
  Commit(&a);
  Commit(&b);
  kv_.Release(&a.table, 0);
  Sequence filler;
  Begin(&filler, Count(50, 28));  // every free block, the published one too
  for (TokenId token = 4; token < 8; ++token) b.tokens.push_back(token);
  kv_.Release(&filler.table, 0);
  std::vector<BlockId> added;
  ASSERT_TRUE(kv_.Reserve(&b.table, 8, &added));
  Commit(&b);
  Sequence c;
  EXPECT_EQ(Begin(&c, Count(0, 9)), 8);
  EXPECT_EQ(c.table.blocks()[0], b.table.blocks()[0]);
}

TEST_F(KvSharingTest, AResetForgetsWhatTheBlocksHeld) {
  Run(Count(0, 9));
  kv_.ForgetSteps();
  EXPECT_EQ(kv_.num_cached(), 0);
  Sequence again;
  EXPECT_EQ(Begin(&again, Count(0, 9)), 0);
}

TEST_F(KvSharingTest, ASequenceThatTakesNoPartNeitherFindsNorPublishes) {
  Sequence silent;
  silent.tokens = Count(0, 9);
  std::vector<BlockId> added;
  ASSERT_TRUE(kv_.Reserve(&silent.table, 9, &added));
  EXPECT_EQ(kv_.Match(&silent.chain, silent.tokens, 2), 0);
  Commit(&silent);
  kv_.Release(&silent.table, 0);
  EXPECT_EQ(kv_.num_cached(), 0);
}

}  // namespace
}  // namespace octavo
