#include "tools/simulate/advice.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/simulate/trace_reader.h"

namespace octavo::simulate {
namespace {

using ::testing::HasSubstr;

// 400 requests of 200 + 100 tokens; four come every second.
Trace Steady() {
  Trace trace{.name = "steady"};
  for (int i = 0; i < 400; ++i) {
    trace.requests.push_back(
        {.arrival_seconds = 0.25 * i, .prompt_tokens = 200, .output_tokens = 100});
  }
  trace.requests[7].output_tokens = 1000;
  return trace;
}

SimulationOptions SmallPool() {
  SimulationOptions options;
  options.num_blocks = 200;
  return options;
}

Advice AdviceFor(const SimulationOptions& options) {
  const Trace trace = Steady();
  absl::StatusOr<Advice> advice = Advise(TrafficOf(trace), trace, options, nullptr);
  EXPECT_TRUE(advice.ok()) << advice.status();
  return *std::move(advice);
}

TEST(Advise, NamesTheLengthThatServesMost) {
  const Advice advice = AdviceFor(SmallPool());
  ASSERT_EQ(advice.lengths.size(), 4u);
  EXPECT_EQ(advice.lengths[1].max_model_len, 300);
  EXPECT_DOUBLE_EQ(advice.lengths[1].refused, 1 / 400.0);
  EXPECT_EQ(advice.lengths[3].max_model_len, 1200);
  EXPECT_EQ(advice.lengths[3].refused, 0);
}

// A request holds 13 blocks at first and 19 at its end, so 10 to 15 fit into 200 at once; the long
// one takes the place of four.
TEST(Advise, FindsTheSequencesThatFitWithoutSustainedPreemption) {
  const Advice advice = AdviceFor(SmallPool());
  EXPECT_GT(advice.now.full.preemptions_per_request, kSustainedPreemptions);
  EXPECT_FALSE(advice.never_sustained);
  EXPECT_GE(advice.advised_num_seqs, 7);
  EXPECT_LE(advice.advised_num_seqs, 14);
  EXPECT_LE(advice.advised.preemptions_per_request, kSustainedPreemptions);
}

TEST(Advise, SaysWhenBlocksAreNotTheLimit) {
  const Advice advice = AdviceFor({});
  EXPECT_TRUE(advice.never_sustained);
  EXPECT_EQ(advice.now.full.preemptions_per_request, 0);
  EXPECT_THAT(ToText(advice), HasSubstr("no need to lower it"));
}

// Four requests a second of about half a second each hold some 2 x 16 blocks.
TEST(Advise, MeasuresTheBlocksThatTheTrafficHolds) {
  const Advice advice = AdviceFor(SmallPool());
  EXPECT_FALSE(advice.now.busiest.overloaded);
  EXPECT_GT(advice.blocks_mean, 15);
  EXPECT_LT(advice.blocks_mean, 60);
  EXPECT_GT(advice.blocks_peak, advice.blocks_mean);
}

TEST(Advise, TellsOverload) {
  SimulationOptions options = SmallPool();
  options.arrival_scale = 1000;
  const Advice advice = AdviceFor(options);
  EXPECT_TRUE(advice.now.busiest.overloaded);
  EXPECT_EQ(advice.blocks_mean, 0);
  EXPECT_THAT(ToText(advice), HasSubstr("the queue grows"));
}

TEST(Advise, TriesEightBitBlocksAndCards) {
  const Advice advice = AdviceFor(SmallPool());
  ASSERT_EQ(advice.alternatives.size(), 5u);
  const Alternative& int8 = advice.alternatives[0];
  EXPECT_EQ(int8.flags, "--kv-cache-dtype=int8");
  // 128 elements of one byte and a scale of two, instead of 256 bytes.
  EXPECT_EQ(int8.num_blocks, 200 * 256 / 130);
  EXPECT_GT(int8.full.tokens_per_second, 1.3 * advice.now.full.tokens_per_second);
  EXPECT_EQ(advice.alternatives[1].num_blocks, 400);
  EXPECT_EQ(advice.alternatives[3].num_blocks, 50);
  EXPECT_EQ(advice.alternatives[4].flags, "--cards=2");
  EXPECT_EQ(advice.alternatives[4].num_blocks, 400);
}

TEST(Advise, SaysWhyAnAlternativeDoesNotWork) {
  SimulationOptions options;
  options.num_blocks = 1;
  options.scheduler.block_size = 16;
  options.max_model_len = 16;
  Trace trace{.name = "tiny"};
  for (int i = 0; i < 8; ++i) {
    trace.requests.push_back({.arrival_seconds = 1.0 * i, .prompt_tokens = 4, .output_tokens = 4});
  }
  const absl::StatusOr<Advice> advice = Advise(TrafficOf(trace), trace, options, nullptr);
  ASSERT_TRUE(advice.ok()) << advice.status();
  EXPECT_EQ(ToJson(*advice)["alternatives"].size(), 5u);
}

TEST(Advise, IsTheSameForTheSameSeed) {
  EXPECT_EQ(ToJson(AdviceFor(SmallPool())).dump(), ToJson(AdviceFor(SmallPool())).dump());
  EXPECT_EQ(ToText(AdviceFor(SmallPool())), ToText(AdviceFor(SmallPool())));
}

TEST(Advise, EndsWhenTheCallerSaysSo) {
  const Trace trace = Steady();
  const absl::StatusOr<Advice> advice =
      Advise(TrafficOf(trace), trace, SmallPool(), [](const std::string&) { return false; });
  EXPECT_TRUE(absl::IsCancelled(advice.status()));
}

TEST(Advise, AnswersInWords) {
  const std::string text = ToText(AdviceFor(SmallPool()));
  for (const char* part :
       {"How long may a request be?", "--max-model-len 300", "How many blocks does it need?",
        "How many sequences at once?", "--max-num-seqs 256 preempts", "What would change it?",
        "8-bit KV cache (--kv-cache-dtype=int8)", "2 cards (--cards=2)"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

}  // namespace
}  // namespace octavo::simulate
