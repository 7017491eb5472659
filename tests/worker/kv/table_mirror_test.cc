#include "worker/kv/table_mirror.h"

#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace octavo {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const MirrorLimits kLimits = {.num_blocks = 10,
                              .block_size = 8,
                              .max_model_len = 32,
                              .max_num_seqs = 2,
                              .max_num_batched_tokens = 16,
                              .vocab_size = 100,
                              .num_swap_blocks = 4};

SeqSlice Start(SequenceId id, std::vector<TokenId> tokens, std::vector<BlockId> blocks) {
  SeqSlice slice;
  slice.sequence = id;
  slice.start = SequenceStart{{.temperature = 0, .seed = 7}, 3};
  slice.num_tokens = static_cast<int32_t>(tokens.size());
  slice.tokens = std::move(tokens);
  slice.new_blocks = std::move(blocks);
  return slice;
}

SeqSlice Next(SequenceId id, int32_t context, std::vector<TokenId> tokens,
              std::vector<BlockId> blocks = {}) {
  SeqSlice slice = Start(id, std::move(tokens), std::move(blocks));
  slice.start.reset();
  slice.context_length = context;
  return slice;
}

SeqSlice Feed(SequenceId id, int32_t context) {
  SeqSlice slice = Next(id, context, {});
  slice.num_tokens = 1;
  slice.feed_sampled = true;
  return slice;
}

StepPlan Plan(std::vector<SeqSlice> slices, std::vector<SequenceId> dropped = {}) {
  StepPlan plan;
  plan.slices = std::move(slices);
  plan.dropped = std::move(dropped);
  return plan;
}

SeqSlice Scoring(SeqSlice slice, ScoreRows score) {
  slice.score = std::move(score);
  return slice;
}

class TableMirrorTest : public testing::Test {
 protected:
  void Expect(const StepPlan& plan, absl::StatusCode code, const std::string& text) {
    const size_t before = mirror_.num_sequences();
    const absl::Status status = mirror_.Apply(plan);
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
    EXPECT_EQ(mirror_.num_sequences(), before);
  }
  void ExpectInvalid(const StepPlan& plan, const std::string& text) {
    Expect(plan, absl::StatusCode::kInvalidArgument, text);
  }
  void ExpectPrecondition(const StepPlan& plan, const std::string& text) {
    Expect(plan, absl::StatusCode::kFailedPrecondition, text);
  }

  TableMirror mirror_{kLimits};
};

TEST_F(TableMirrorTest, KeepsTheTableThroughDifferences) {
  ASSERT_TRUE(mirror_.Apply(Plan({Start(5, {1, 2, 3}, {4})})).ok());
  ASSERT_TRUE(mirror_.Apply(Plan({Next(5, 3, {4, 5, 6, 7, 8, 9}, {9})})).ok());
  const MirroredSequence* sequence = mirror_.Find(5);
  ASSERT_NE(sequence, nullptr);
  EXPECT_THAT(sequence->blocks, ElementsAre(4, 9));
  EXPECT_EQ(sequence->computed_tokens, 9);
  EXPECT_EQ(sequence->choice_index, 3u);
  EXPECT_EQ(sequence->sampling.seed, 7u);
  ASSERT_TRUE(mirror_.Apply(Plan({}, {5})).ok());
  EXPECT_EQ(mirror_.Find(5), nullptr);
}

TEST_F(TableMirrorTest, StartsAnewAfterADropInTheSamePlan) {
  ASSERT_TRUE(mirror_.Apply(Plan({Start(5, {1, 2}, {4})})).ok());
  mirror_.ExpectSample(5, 0, 2);
  mirror_.RecordSample(5, 3, 2);
  ASSERT_TRUE(mirror_.Apply(Plan({Start(5, {1, 2, 3}, {6})}, {5})).ok());
  EXPECT_THAT(mirror_.Find(5)->blocks, ElementsAre(6));
  EXPECT_FALSE(mirror_.Find(5)->last_sampled.has_value());
}

TEST_F(TableMirrorTest, ForgettingAnUnknownSequenceIsHarmless) {
  EXPECT_TRUE(mirror_.Apply(Plan({}, {1, 2, 2})).ok());
}

TEST_F(TableMirrorTest, FeedsWhatWasSampledAtThatPosition) {
  ASSERT_TRUE(mirror_.Apply(Plan({Start(5, {1, 2}, {4})})).ok());
  ExpectPrecondition(Plan({Feed(5, 2)}), "before anything was sampled");
  mirror_.ExpectSample(5, 0, 2);
  mirror_.RecordSample(5, 42, 2);
  ExpectPrecondition(Plan({Feed(5, 1)}), "position 1");
  EXPECT_TRUE(mirror_.Apply(Plan({Feed(5, 2)})).ok());
  ExpectPrecondition(Plan({Feed(5, 3)}), "position 2");
}

TEST_F(TableMirrorTest, WhatIsExpectedCanBeFedBeforeItIsKnown) {
  ASSERT_TRUE(mirror_.Apply(Plan({Start(5, {1, 2}, {4})})).ok());
  mirror_.ExpectSample(5, 3, 2);
  ExpectPrecondition(Plan({Feed(5, 1)}), "position 1");
  ASSERT_TRUE(mirror_.Apply(Plan({Feed(5, 2)})).ok());
  EXPECT_EQ(mirror_.Find(5)->sampled_row, 3);
  mirror_.ExpectSample(5, 1, 3);
  // The first is answered while the second computes.
  mirror_.RecordSample(5, 42, 2);
  EXPECT_FALSE(mirror_.Find(5)->last_sampled.has_value());
  EXPECT_EQ(mirror_.Find(5)->sampled_row, 1);
  mirror_.RecordSample(5, 43, 3);
  EXPECT_EQ(mirror_.Find(5)->last_sampled, 43);
}

TEST_F(TableMirrorTest, WhatADroppedSequenceSampledIsForgotten) {
  ASSERT_TRUE(mirror_.Apply(Plan({Start(5, {1, 2}, {4})})).ok());
  mirror_.ExpectSample(5, 0, 2);
  ASSERT_TRUE(mirror_.Apply(Plan({}, {5})).ok());
  mirror_.RecordSample(5, 42, 2);
  EXPECT_EQ(mirror_.Find(5), nullptr);
}

TEST_F(TableMirrorTest, RefusesUnknownAndRepeatedSequences) {
  ExpectPrecondition(Plan({Next(7, 0, {1}, {1})}), "sequence 7: unknown");
  ASSERT_TRUE(mirror_.Apply(Plan({Start(5, {1}, {4})})).ok());
  ExpectPrecondition(Plan({Start(5, {1}, {3})}), "sequence 5: starts again");
  ExpectPrecondition(Plan({Next(5, 1, {1})}, {5}), "sequence 5: unknown");
  ExpectInvalid(Plan({Next(5, 1, {1}), Next(5, 1, {1})}), "sequence 5 has two slices");
}

TEST_F(TableMirrorTest, RefusesWhatDoesNotFitTheTable) {
  ExpectInvalid(Plan({Start(5, {1, 2, 3, 4, 5, 6, 7, 8, 9}, {4})}), "do not fit in 1 blocks of 8");
  ExpectInvalid(Plan({Start(5, {1}, {1, 2, 3, 4, 5})}), "table of 5 blocks");
  ASSERT_TRUE(mirror_.Apply(Plan({Start(5, {1, 2}, {4})})).ok());
  ExpectPrecondition(Plan({Next(5, 3, {1})}), "past the 2 tokens");
  ExpectInvalid(Plan({Next(5, 32, {1})}), "the model length");
  ExpectInvalid(Plan({Next(5, std::numeric_limits<int32_t>::max(), {1})}), "the model length");
  ExpectInvalid(Plan({Next(5, -1, {1})}), "context -1");
}

TEST_F(TableMirrorTest, RefusesIdsOutOfRange) {
  ExpectInvalid(Plan({Start(5, {1}, {0})}), "block 0 is outside [1, 10]");
  ExpectInvalid(Plan({Start(5, {1}, {11})}), "block 11 is outside [1, 10]");
  ExpectInvalid(Plan({Start(5, {1}, {-3})}), "block -3");
  ExpectInvalid(Plan({Start(5, {100}, {1})}), "token id 100 is outside [0, 100)");
  ExpectInvalid(Plan({Start(5, {-1}, {1})}), "token id -1");
}

TEST_F(TableMirrorTest, RefusesMalformedSlices) {
  SeqSlice slice = Start(5, {1, 2}, {1});
  slice.num_tokens = 3;
  ExpectInvalid(Plan({slice}), "carries 2 ids");
  slice.num_tokens = 0;
  ExpectInvalid(Plan({slice}), "slice of 0 tokens");
  slice = Start(5, {1}, {1});
  slice.start->sampling.top_p = 2;
  ExpectInvalid(Plan({slice}), "sequence 5");
  slice = Feed(5, 0);
  slice.num_tokens = 2;
  ExpectInvalid(Plan({slice}), "feed_sampled takes 1 token");
}

TEST_F(TableMirrorTest, RefusesMoreThanTheStepLimits) {
  ExpectInvalid(Plan({Start(1, {1}, {1}), Start(2, {1}, {2}), Start(3, {1}, {3})}),
                "3 slices; the limit is 2");
  const std::vector<TokenId> nine(9, 1);
  ExpectInvalid(Plan({Start(1, nine, {1, 2}), Start(2, nine, {3, 4})}), "18 tokens");
}

TEST_F(TableMirrorTest, HoldsABoundedNumberOfSequences) {
  for (SequenceId id = 0; id < 6; ++id)
    ASSERT_TRUE(mirror_.Apply(Plan({Start(id, {1}, {1})})).ok()) << id;
  ExpectInvalid(Plan({Start(6, {1}, {1})}), "would hold 7 sequences; the limit is 6");
  EXPECT_TRUE(mirror_.Apply(Plan({Start(6, {1}, {1})}, {0})).ok());
}

TEST_F(TableMirrorTest, RefusesCopiesThatAreNoParallelSet) {
  StepPlan plan;
  plan.copies = {{1, 2}, {3, 2}};
  ExpectInvalid(plan, "block 2 is the target of two copies");
  plan.copies = {{1, 2}, {2, 3}};
  ExpectInvalid(plan, "block 2 is both source and target");
  plan.copies = {{1, 11}};
  ExpectInvalid(plan, "copy target block 11");
  plan.copies = {{0, 1}};
  ExpectInvalid(plan, "copy source block 0");
  plan.copies = {{1, 2}, {1, 3}};
  EXPECT_TRUE(mirror_.Apply(plan).ok());
}

SeqSlice Forking(SeqSlice slice, std::vector<Fork> forks) {
  slice.sample = true;
  slice.forks = std::move(forks);
  return slice;
}

TEST_F(TableMirrorTest, AForkBeginsWithTheTableOfItsParent) {
  ASSERT_TRUE(mirror_.Apply(Plan({Forking(Start(5, {1, 2, 3}, {4}), {{6, 9}})})).ok());
  mirror_.ExpectSample(5, 0, 3);
  mirror_.RecordSample(5, 10, 3);
  mirror_.ExpectSample(6, 0, 3);
  mirror_.RecordSample(6, 11, 3);
  const MirroredSequence* child = mirror_.Find(6);
  ASSERT_NE(child, nullptr);
  EXPECT_THAT(child->blocks, ElementsAre(4));
  EXPECT_EQ(child->computed_tokens, 3);
  EXPECT_EQ(child->choice_index, 9u);
  EXPECT_EQ(child->sampling.seed, 7u);
  EXPECT_EQ(mirror_.Find(5)->choice_index, 3u);
  EXPECT_TRUE(mirror_.Apply(Plan({Feed(5, 3)})).ok());
  EXPECT_EQ(*mirror_.Find(6)->last_sampled, 11);
}

TEST_F(TableMirrorTest, RefusesForksThatCannotBe) {
  SeqSlice silent = Forking(Start(5, {1, 2}, {4}), {{6, 1}});
  silent.sample = false;
  ExpectInvalid(Plan({silent}), "forks without sampling");
  ExpectInvalid(Plan({Forking(Start(5, {1, 2}, {4}), {{5, 1}})}), "sequence 5 has two slices");
  ExpectInvalid(Plan({Forking(Start(5, {1, 2}, {4}), {{6, 1}, {7, 2}})}),
                "3 samples; the limit is 2");
  ASSERT_TRUE(mirror_.Apply(Plan({Start(6, {1}, {1})})).ok());
  ExpectPrecondition(Plan({Forking(Start(5, {1, 2}, {4}), {{6, 1}})}), "sequence 6: is born again");
  EXPECT_TRUE(mirror_.Apply(Plan({Forking(Start(5, {1, 2}, {4}), {{6, 1}})}, {6})).ok());
}

TEST_F(TableMirrorTest, AReplacedBlockIsACopyOfWhatItWas) {  // kv.2
  ASSERT_TRUE(mirror_.Apply(Plan({Forking(Start(5, {1, 2, 3}, {4}), {{6, 1}})})).ok());
  StepPlan plan = Plan({Next(6, 3, {9})});
  plan.slices[0].replaced = {{0, 7}};
  ExpectInvalid(plan, "block 4 is replaced by 7, which the plan does not copy it to");
  plan.copies = {{3, 7}};
  ExpectInvalid(plan, "block 4 is replaced by 7");
  plan.copies = {{4, 7}};
  plan.slices[0].replaced = {{1, 7}};
  ExpectPrecondition(plan, "replaces entry 1 of a table of 1 blocks");
  plan.slices[0].replaced = {{-1, 7}};
  ExpectPrecondition(plan, "replaces entry -1");
  plan.slices[0].replaced = {{0, 11}};
  ExpectInvalid(plan, "replacing block 11 is outside [1, 10]");
  plan.slices[0].replaced = {{0, 7}};
  ASSERT_TRUE(mirror_.Apply(plan).ok());
  EXPECT_THAT(mirror_.Find(6)->blocks, ElementsAre(7));
  EXPECT_THAT(mirror_.Find(5)->blocks, ElementsAre(4));
}

TEST_F(TableMirrorTest, RefusesSwapsThatCannotBe) {  // swap.1, step.4
  StepPlan plan = Plan({Start(5, {1, 2}, {4})});
  plan.swap_outs = {{6, 1}, {7, 2}};
  plan.swap_ins = {{8, 3}};
  plan.swap_ins[0].device = 7;
  ExpectInvalid(plan, "block 7 is named by two swaps");
  plan.swap_ins[0] = {8, 2};
  ExpectInvalid(plan, "host block 2 is named by two swaps");
  plan.swap_ins[0] = {8, 5};
  ExpectInvalid(plan, "host block 5 is outside [1, 4]");
  plan.swap_ins[0] = {11, 3};
  ExpectInvalid(plan, "swapped block 11 is outside [1, 10]");
  plan.swap_ins[0] = {8, 3};
  plan.copies = {{4, 8}};
  ExpectInvalid(plan, "block 8 is swapped and the target of a copy");
  plan.copies.clear();
  EXPECT_TRUE(mirror_.Apply(plan).ok());
}

TEST_F(TableMirrorTest, RefusesScoresOfRowsThatAreNotThere) {
  const auto plan = [](ScoreRows score) { return Plan({Scoring(Start(1, {5, 6}, {1}), score)}); };
  ExpectInvalid(plan({0, {1, 2, 3}, 0}), "scores 3 rows from row 0 on; the slice has 2");
  ExpectInvalid(plan({2, {1}, 0}), "scores 1 rows from row 2 on");
  ExpectInvalid(plan({-1, {1}, 0}), "from row -1 on");
  ExpectInvalid(plan({0, {}, 0}), "scores 0 rows");
  ExpectInvalid(plan({0, {100}, 0}), "scored token 100 is outside [0, 100)");
  ExpectInvalid(plan({0, {1}, 21}), "num_top of scores is 21");
  EXPECT_TRUE(mirror_.Apply(plan({1, {1}, 20})).ok());
  ExpectInvalid(Plan({Scoring(Feed(1, 2), {0, {1}, 0})}), "after what it sampled");
}

// Rows of two blocks: a group that sees all, one that sees 6 tokens (kv.7).
class WindowedMirrorTest : public TableMirrorTest {
 protected:
  static MirrorLimits Limits() {
    MirrorLimits limits = kLimits;
    limits.group_windows = {0, 6};
    return limits;
  }
  WindowedMirrorTest() : mirror_(Limits()) {}

  TableMirror mirror_;
};

TEST_F(WindowedMirrorTest, RefusesRowsThatLackABlockOfAWindow) {
  const auto refusal = [&](const SeqSlice& slice) {
    return std::string(mirror_.Apply(Plan({slice})).message());
  };
  EXPECT_THAT(refusal(Start(5, {1, 2}, {1})), HasSubstr("1 blocks for 2 groups"));
  EXPECT_THAT(refusal(Start(5, {1, 2}, {0, 1})), HasSubstr("new block 0"));
  EXPECT_THAT(refusal(Start(5, {1, 2}, {1, 0})),
              HasSubstr("group 1 of layers has no block for tokens 0 to 7"));
  // A table that begins with 16 tokens reads 11 to 15 of them.
  SeqSlice found = Start(5, {1, 2}, {1, 0, 2, 0, 3, 4});
  found.context_length = 16;
  EXPECT_THAT(refusal(found), HasSubstr("no block for tokens 8 to 15"));
  found.new_blocks[3] = 5;
  EXPECT_EQ(refusal(found), "");
}

TEST_F(WindowedMirrorTest, TakesBlocksThatAreLentLate) {
  ASSERT_TRUE(mirror_.Apply(Plan({Start(5, {1, 2, 3}, {1, 2, 3, 0})})).ok());
  SeqSlice next = Next(5, 3, {4, 5, 6, 7, 8, 9});
  EXPECT_THAT(std::string(mirror_.Apply(Plan({next})).message()), HasSubstr("group 1"));
  next.replaced = {{3, 4}};
  ASSERT_TRUE(mirror_.Apply(Plan({next})).ok());
  EXPECT_THAT(mirror_.Find(5)->blocks, ElementsAre(1, 2, 3, 4));
  // A block that is there is replaced by its copy only (kv.2).
  SeqSlice copied = Next(5, 9, {1});
  copied.replaced = {{3, 6}};
  EXPECT_THAT(std::string(mirror_.Apply(Plan({copied})).message()), HasSubstr("does not copy"));
}

}  // namespace
}  // namespace octavo
