// The judge of the simulations must itself see what is wrong.
#include "tests/fakes/shadow_worker.h"

#include <memory>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace octavo {
namespace {

using testing::HasSubstr;

class ShadowWorkerTest : public testing::Test {
 protected:
  ShadowWorkerTest()
      : worker_({.num_blocks = 8,
                 .block_size = 4,
                 .vocab_size = 50,
                 .max_model_len = 20,
                 .max_num_seqs = 2,
                 .max_num_batched_tokens = 8,
                 .num_swap_blocks = 4}) {
    worker_.Reset(1);
  }

  static SeqSlice Prompt(SequenceId sequence, std::vector<TokenId> tokens,
                         std::vector<BlockId> blocks) {
    SeqSlice slice;
    slice.sequence = sequence;
    slice.start = SequenceStart{};
    slice.num_tokens = static_cast<int32_t>(tokens.size());
    slice.tokens = std::move(tokens);
    slice.new_blocks = std::move(blocks);
    slice.sample = true;
    return slice;
  }
  static SeqSlice Decode(SequenceId sequence, int32_t context, std::vector<BlockId> blocks = {}) {
    SeqSlice slice;
    slice.sequence = sequence;
    slice.context_length = context;
    slice.num_tokens = 1;
    slice.feed_sampled = true;
    slice.new_blocks = std::move(blocks);
    slice.sample = true;
    return slice;
  }
  absl::Status Submit(std::vector<SeqSlice> slices, std::vector<SequenceId> dropped = {}) {
    return worker_.Submit(
        {.epoch = 1, .step = step_++, .dropped = std::move(dropped), .slices = std::move(slices)});
  }
  void ExpectBroken(const absl::Status& status, const std::string& rule) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(rule));
    EXPECT_FALSE(status.ok());
  }

  ShadowWorker worker_;
  StepId step_ = 1;
};

TEST_F(ShadowWorkerTest, ComputesWhatDirectEvaluationGives) {
  Request request;
  request.prompt = {3, 4, 5};
  request.max_tokens = 3;
  const ExpectedOutput expected = Evaluate(request, 50);
  ASSERT_TRUE(Submit({Prompt(1, {3, 4, 5}, {7})}).ok());
  ASSERT_TRUE(Submit({Decode(1, 3)}).ok());
  EXPECT_EQ(worker_.Run()->samples.at(0).token, expected.tokens[0]);
  ASSERT_TRUE(Submit({Decode(1, 4, {2})}).ok());
  EXPECT_EQ(worker_.Run()->samples.at(0).token, expected.tokens[1]);
  EXPECT_EQ(worker_.Run()->samples.at(0).token, expected.tokens[2]);
}

TEST_F(ShadowWorkerTest, SeesABlockLentWhileAnUncommittedStepNamesIt) {  // life.1
  ASSERT_TRUE(Submit({Prompt(1, {3}, {1})}).ok());
  ExpectBroken(Submit({Prompt(2, {3}, {1})}, {1}), "uncommitted step 1 names it");
}

TEST_F(ShadowWorkerTest, SeesABlockWithTwoHolders) {  // kv.2
  ASSERT_TRUE(Submit({Prompt(1, {3}, {1})}).ok());
  ASSERT_TRUE(worker_.Run().ok());
  ExpectBroken(Submit({Prompt(2, {3}, {1})}), "block 1 is held by another table");
}

TEST_F(ShadowWorkerTest, ATableMayBeginWithBlocksOfAnother) {
  Request request;
  request.prompt = {1, 2, 3, 4, 9};
  request.max_tokens = 1;
  ASSERT_TRUE(Submit({Prompt(1, {1, 2, 3, 4, 5}, {1, 2})}).ok());
  SeqSlice hit = Prompt(2, {9}, {1, 3});
  hit.context_length = 4;
  ASSERT_TRUE(Submit({hit}).ok());
  ASSERT_TRUE(worker_.Run().ok());
  EXPECT_EQ(worker_.Run()->samples.at(0).token, Evaluate(request, 50).tokens[0]);
  EXPECT_EQ(worker_.computed_tokens(), 6);
}

TEST_F(ShadowWorkerTest, SeesATableThatBeginsWithStaleOrForbiddenBlocks) {
  ASSERT_TRUE(Submit({Prompt(1, {1, 2, 3, 4, 5}, {1, 2})}).ok());
  ASSERT_TRUE(worker_.Run().ok());
  SeqSlice hit = Prompt(2, {9}, {4, 3});
  hit.context_length = 4;
  ASSERT_TRUE(Submit({hit}).ok());
  EXPECT_EQ(worker_.Run().status().code(), absl::StatusCode::kDataLoss);
  worker_.SetReadRule([](SequenceId reader, SequenceId writer) { return reader == writer; });
  hit.sequence = 5;
  hit.new_blocks = {1, 5};  // full of sequence 1's tokens
  ASSERT_TRUE(Submit({hit}).ok());
  ExpectBroken(worker_.Run().status(), "may not find");
}

TEST_F(ShadowWorkerTest, ForksSampleByThemselvesAndCopyBeforeTheyWrite) {  // kv.2, step.4
  Request request;
  request.prompt = {3, 4, 5};
  request.max_tokens = 2;
  SeqSlice parent = Prompt(1, {3, 4, 5}, {1});
  parent.forks = {{2, 1}};
  ASSERT_TRUE(Submit({parent}).ok());
  const StepResult first = *worker_.Run();
  EXPECT_EQ(first.samples.at(0).token, Evaluate(request, 50, 0).tokens[0]);
  EXPECT_EQ(first.samples.at(1).token, Evaluate(request, 50, 1).tokens[0]);
  EXPECT_EQ(first.samples.at(1).sequence, 2u);

  SeqSlice copied = Decode(2, 3);
  copied.replaced = {{0, 6}};
  StepPlan plan = {.epoch = 1, .step = 2, .copies = {{1, 6}}, .slices = {Decode(1, 3), copied}};
  ASSERT_TRUE(worker_.Submit(plan).ok());
  const StepResult second = *worker_.Run();
  EXPECT_EQ(second.samples.at(0).token, Evaluate(request, 50, 0).tokens[1]);
  EXPECT_EQ(second.samples.at(1).token, Evaluate(request, 50, 1).tokens[1]);
  EXPECT_EQ(worker_.copied_blocks(), 1);
}

TEST_F(ShadowWorkerTest, SeesAMissedCopy) {  // kv.2
  SeqSlice parent = Prompt(1, {3, 4, 5}, {1});
  parent.forks = {{2, 1}};
  ASSERT_TRUE(Submit({parent}).ok());
  ExpectBroken(Submit({Decode(1, 3)}), "writes to block 1, which others hold");
  // A table entry that changes without its content.
  worker_.Reset(1);
  step_ = 1;
  ASSERT_TRUE(Submit({parent}).ok());
  SeqSlice uncopied = Decode(2, 3);
  uncopied.replaced = {{0, 6}};
  ExpectBroken(Submit({uncopied}), "is no copy");
}

TEST_F(ShadowWorkerTest, SeesSequencesThatItDoesNotKnowOrStillKnows) {
  ExpectBroken(Submit({Decode(1, 0, {1})}), "sequence 1 is unknown");
  step_ = 1;
  ASSERT_TRUE(Submit({Prompt(1, {3}, {1})}).ok());
  ExpectBroken(Submit({Prompt(1, {3}, {2})}), "was not dropped");
  step_ = 2;
  ExpectBroken(Submit({Prompt(2, {3}, {2})}, {9}), "drop of unknown sequence 9");
}

TEST_F(ShadowWorkerTest, SeesStepsOutOfOrder) {  // step.1
  step_ = 2;
  ExpectBroken(Submit({Prompt(1, {3}, {1})}), "step 2; expected 1");
  ExpectBroken(worker_.Submit({.epoch = 2, .step = 1}), "epoch 2; expected 1");
}

TEST_F(ShadowWorkerTest, SeesPlansThatDoNotFit) {  // step.2
  ExpectBroken(Submit({Prompt(1, {1, 2, 3, 4, 5}, {1})}), "ends at 5 in 1 blocks");
  worker_.Reset(1);
  step_ = 1;
  ExpectBroken(Submit({Prompt(1, {1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 2, 3})}), "9 tokens");
  step_ = 1;
  ExpectBroken(Submit({Prompt(1, {1}, {1}), Prompt(1, {1}, {2})}), "two slices of 1");
}

TEST_F(ShadowWorkerTest, SeesAFedTokenThatWasNotSampled) {  // step.3
  SeqSlice chunk = Prompt(1, {3, 4}, {1});
  chunk.sample = false;
  ASSERT_TRUE(Submit({chunk}).ok());
  ExpectBroken(Submit({Decode(1, 2)}), "did not sample");
}

TEST_F(ShadowWorkerTest, SeesSwapsThatBreakTheOrder) {  // swap.1, step.4
  const auto submit = [&](std::vector<SeqSlice> slices, std::vector<SequenceId> dropped,
                          std::vector<BlockSwap> outs, std::vector<BlockSwap> ins) {
    return worker_.Submit({.epoch = 1,
                           .step = step_,
                           .dropped = std::move(dropped),
                           .slices = std::move(slices),
                           .swap_outs = std::move(outs),
                           .swap_ins = std::move(ins)});
  };
  ASSERT_TRUE(Submit({Prompt(1, {5, 6, 7}, {1})}).ok());
  const TokenId sampled = worker_.Run()->samples.at(0).token;
  ExpectBroken(submit({}, {}, {{1, 1}}, {}), "swapped out but in a table");
  // The sequence leaves; its block goes to the host after the compute of this step.
  worker_.Reset(1);
  step_ = 1;
  ASSERT_TRUE(Submit({Prompt(1, {5, 6, 7}, {1})}).ok());
  ASSERT_TRUE(worker_.Run().ok());
  ASSERT_TRUE(submit({}, {1}, {{1, 3}}, {}).ok());
  ++step_;
  ExpectBroken(submit({Prompt(2, {9}, {1})}, {}, {}, {}), "swaps it (swap.1)");
  ExpectBroken(submit({}, {}, {{2, 3}}, {}), "host block 3 is used while");
  ASSERT_TRUE(worker_.Run().ok());
  SeqSlice back = Prompt(1, {sampled}, {4});
  back.context_length = 3;
  ASSERT_TRUE(submit({back}, {}, {}, {{4, 3}}).ok());
  ++step_;
  ASSERT_TRUE(worker_.Run().ok());
  EXPECT_EQ(worker_.swapped_out_blocks(), 1);
  EXPECT_EQ(worker_.swapped_in_blocks(), 1);
  // A host block that nothing was swapped out to.
  SeqSlice stale = Prompt(3, {sampled}, {5});
  stale.context_length = 3;
  ASSERT_TRUE(submit({stale}, {}, {}, {{5, 2}}).ok());
  EXPECT_EQ(worker_.Run().status().code(), absl::StatusCode::kDataLoss);
}

// Rows of two blocks of 4: a group that sees all, one that sees 4 tokens (kv.7).
class WindowedShadowTest : public ShadowWorkerTest {
 protected:
  WindowedShadowTest() {
    worker_ = std::make_unique<ShadowWorker>(ShadowWorkerConfig{.num_blocks = 12,
                                                                .block_size = 4,
                                                                .vocab_size = 50,
                                                                .max_model_len = 20,
                                                                .max_num_seqs = 2,
                                                                .max_num_batched_tokens = 8,
                                                                .group_windows = {0, 4}});
    worker_->Reset(1);
  }
  absl::Status Submit(std::vector<SeqSlice> slices) {
    return worker_->Submit({.epoch = 1, .step = step_++, .slices = std::move(slices)});
  }

  std::unique_ptr<ShadowWorker> worker_;
};

TEST_F(WindowedShadowTest, ABlockBehindTheWindowMayBeLentWhileAStepNamesIt) {
  ASSERT_TRUE(Submit({Prompt(1, {1, 2, 3, 4, 5, 6, 7}, {1, 2, 3, 4})}).ok());
  ASSERT_TRUE(Submit({Decode(1, 7)}).ok());  // reads 4 to 7
  ASSERT_TRUE(worker_->Run().ok());
  ASSERT_TRUE(Submit({Prompt(2, {3}, {5, 2})}).ok());
  ASSERT_TRUE(worker_->Run().ok());
  ASSERT_TRUE(worker_->Run().ok());
}

TEST_F(WindowedShadowTest, SeesABlockThatAWindowStillReads) {
  ASSERT_TRUE(Submit({Prompt(1, {1, 2, 3, 4, 5, 6}, {1, 2, 3, 4})}).ok());
  ASSERT_TRUE(worker_->Run().ok());
  ExpectBroken(Submit({Prompt(2, {3}, {5, 2})}), "block 2 is held by another table");  // 6 sees 3
  step_ = 2;
  ASSERT_TRUE(Submit({Decode(1, 6)}).ok());
  ASSERT_TRUE(worker_->Run().ok());
  ASSERT_TRUE(Submit({Prompt(3, {3}, {6, 2})}).ok());  // 7 sees 4
}

TEST_F(WindowedShadowTest, SeesMissingAndForeignBlocksOfAGroup) {
  ExpectBroken(Submit({Prompt(1, {1, 2, 3, 4, 5}, {1, 2, 3, 0})}), "no block in row 1 of group 1");
  worker_->Reset(1);
  step_ = 1;
  SeqSlice prompt = Prompt(1, {1, 2, 3, 4, 5}, {1, 2, 3, 4});
  ASSERT_TRUE(Submit({prompt}).ok());
  ASSERT_TRUE(worker_->Run().ok());
  // The second group of another table begins with what the first wrote.
  SeqSlice mixed = Prompt(2, {9}, {1, 1, 5, 6});
  mixed.context_length = 4;
  ASSERT_TRUE(Submit({mixed}).ok());
  EXPECT_EQ(worker_->Run().status().code(), absl::StatusCode::kDataLoss);
}

TEST(ShadowCache, SeesStaleAndForeignSlots) {
  ShadowCache cache(4, 2);
  const std::vector<BlockId> table = {2, 3};
  ChainHash chain = kEmptyChain;
  for (int32_t i = 0; i < 3; ++i) {
    chain = Extend(chain, 10 + i);
    const ShadowSlot slot = {.sequence = 1, .position = i, .token = 10 + i, .chain = chain};
    ASSERT_TRUE(cache.Write(table, slot).ok());
  }
  EXPECT_TRUE(cache.CheckPrefix(table, {10, 11, 12}).ok());
  EXPECT_EQ(cache.CheckPrefix(table, {10, 11, 12, 13}).code(), absl::StatusCode::kDataLoss);
  // The same token at the same place after another prefix is not the same key and value.
  ASSERT_TRUE(cache
                  .Write(table, {.sequence = 2,
                                 .position = 2,
                                 .token = 12,
                                 .chain = Extend(Extend(kEmptyChain, 11), 12)})
                  .ok());
  EXPECT_EQ(cache.CheckPrefix(table, {10, 11, 12}).code(), absl::StatusCode::kDataLoss);
  ASSERT_TRUE(cache.Copy(2, 4).ok());
  EXPECT_TRUE(cache.CheckPrefix({4}, {10, 11}).ok());
  EXPECT_FALSE(cache.CheckPrefix({4}, {10, 11, 12}).ok());
}

}  // namespace
}  // namespace octavo
