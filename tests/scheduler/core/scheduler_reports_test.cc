// What a scheduler says about its requests between two steps.
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/core/request_report.h"
#include "scheduler/core/scheduler.h"
#include "tests/scheduler/core/scheduler_harness.h"

namespace octavo {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

std::vector<RequestId> Ids(const std::vector<RequestReport>& reports) {
  std::vector<RequestId> ids;
  for (const RequestReport& report : reports) ids.push_back(report.id);
  return ids;
}

WaitReport Explain(Harness& harness, RequestId id) { return *harness.scheduler.ExplainWait(id); }

TEST(SchedulerReports, ListRunningRequestsThenWaitingOnesInOrderOfRank) {
  SchedulerConfig config = SmallConfig();
  config.max_num_seqs = 2;
  Harness harness(config);
  for (RequestId id = 1; id <= 3; ++id) harness.Add(MakeRequest(id, 5, 9));
  Request urgent = MakeRequest(4, 5, 9);
  urgent.priority = -1;
  harness.Step();
  harness.Add(urgent);
  const std::vector<RequestReport> reports = harness.scheduler.ReportRequests(10);
  EXPECT_THAT(Ids(reports), ElementsAre(1, 2, 4, 3));
  EXPECT_TRUE(reports[0].running);
  EXPECT_EQ(reports[0].prompt_tokens, 5);
  EXPECT_EQ(reports[0].computed_tokens, 5);
  EXPECT_EQ(reports[0].generated_tokens, 1);
  EXPECT_EQ(reports[0].blocks, 2);
  EXPECT_EQ(reports[0].exclusive_blocks, 2);
  EXPECT_FALSE(reports[2].running);
  EXPECT_EQ(reports[2].blocks, 0);
  EXPECT_THAT(Ids(harness.scheduler.ReportRequests(3)), ElementsAre(1, 2, 4));
}

TEST(SchedulerReports, AWaitForSequencesHasTheirNumbers) {
  SchedulerConfig config = SmallConfig();
  config.max_num_seqs = 4;
  Harness harness(config);
  Request wide = MakeRequest(1, 5, 9);
  wide.n = 3;
  harness.Add(wide);
  harness.Step();
  wide.id = 2;
  harness.Add(wide);
  harness.Add(MakeRequest(3, 5, 9));
  EXPECT_EQ(Explain(harness, 1).reason, WaitReason::kNone);
  const WaitReport report = Explain(harness, 2);
  EXPECT_EQ(report.reason, WaitReason::kSequences);
  EXPECT_EQ(report.sequences_needed, 3);
  EXPECT_EQ(report.sequences_taken, 3);
  EXPECT_EQ(report.max_sequences, 4);
  EXPECT_EQ(report.ahead, 0);
  const WaitReport behind = Explain(harness, 3);
  EXPECT_EQ(behind.reason, WaitReason::kBehind);
  EXPECT_EQ(behind.behind, 2u);
  EXPECT_EQ(behind.ahead, 1);
}

TEST(SchedulerReports, AWaitForBlocksHasTheirNumbers) {
  SchedulerConfig config = SmallConfig();
  config.num_blocks = 16;
  config.kv_watermark = 0.125;
  Harness harness(config);
  harness.Add(MakeRequest(1, 32, 20));  // 8 blocks, and one more for the next step
  harness.Step();
  harness.Add(MakeRequest(2, 28, 9));
  const WaitReport report = Explain(harness, 2);
  EXPECT_EQ(report.reason, WaitReason::kBlocks);
  EXPECT_EQ(report.blocks_needed, 7);
  EXPECT_EQ(report.blocks_free, 8);
  EXPECT_EQ(report.blocks_reserved, 2);
  EXPECT_EQ(report.tokens_queued, 1);
  EXPECT_EQ(report.token_budget, 32);
  EXPECT_FALSE(harness.scheduler.ExplainWait(3).has_value());
}

TEST(SchedulerReports, AWaitForAProducerNamesIt) {
  SchedulerConfig config = SmallConfig();
  config.prefix_cache = true;
  config.max_prefill_chunk = 8;
  Harness harness(config);
  harness.Add(MakeRequest(1, 21, 4));
  harness.Add(MakeRequest(2, 22, 4));
  harness.Add(MakeRequest(3, 23, 4));
  harness.Step();
  const WaitReport report = Explain(harness, 2);
  EXPECT_EQ(report.reason, WaitReason::kProducer);
  EXPECT_EQ(report.producer, 1u);
  EXPECT_EQ(report.awaited_block, 2);
  EXPECT_EQ(report.prefix_tokens, 8);
  // Nobody is kept by one that waits for a producer.
  EXPECT_EQ(Explain(harness, 3).reason, WaitReason::kProducer);
  EXPECT_EQ(Explain(harness, 3).ahead, 1);
}

TEST(SchedulerReports, NothingKeepsOneThatStartsWithTheNextStep) {
  Harness harness(SmallConfig());
  harness.Add(MakeRequest(1, 21, 4));
  EXPECT_EQ(Explain(harness, 1).reason, WaitReason::kNextStep);
  harness.Step();
  EXPECT_EQ(Explain(harness, 1).reason, WaitReason::kNone);
}

TEST(SchedulerReports, TablesTellWhoHoldsABlockAndWhichAreFound) {
  SchedulerConfig config = SmallConfig();
  config.prefix_cache = true;
  Harness harness(config);
  Request wide = MakeRequest(1, 6, 9);
  wide.n = 2;
  harness.Add(wide);
  harness.Step();
  const auto tables = harness.scheduler.ReportTables(1);
  ASSERT_TRUE(tables.has_value());
  ASSERT_THAT(*tables, SizeIs(2));
  for (const ChoiceTable& table : *tables) {
    EXPECT_EQ(table.computed_tokens, 6);
    ASSERT_THAT(table.blocks, SizeIs(2));
    EXPECT_EQ(table.blocks[0].holders, 2);
    EXPECT_TRUE(table.blocks[0].published);
    EXPECT_FALSE(table.blocks[1].published);
  }
  EXPECT_FALSE(harness.scheduler.ReportTables(2).has_value());
}

// Two schedulers get the same calls; one is asked about everything between them.
TEST(SchedulerReports, QuestionsChangeNoPlan) {  // det.1
  SchedulerConfig config = SmallConfig();
  config.prefix_cache = true;
  config.num_blocks = 20;
  config.max_prefill_chunk = 8;
  Harness silent(config);
  Harness asked(config);
  std::mt19937_64 random(7);
  RequestId next = 1;
  for (int event = 0; event < 2000; ++event) {
    if (random() % 4 == 0 && silent.scheduler.stats().waiting < 6) {
      Request request = MakeRequest(next++, 1 + static_cast<int32_t>(random() % 40),
                                    1 + static_cast<int32_t>(random() % 12));
      if (random() % 3 == 0) request.prompt[0] = static_cast<TokenId>(random() % 3);
      request.n = 1 + static_cast<int32_t>(random() % 2);
      const bool fits = silent.scheduler.Add(request).ok();
      EXPECT_EQ(asked.scheduler.Add(request).ok(), fits);
    }
    for (RequestId id = 1; id <= next; ++id) {
      const std::optional<WaitReport> report = asked.scheduler.ExplainWait(id);
      const auto tables = asked.scheduler.ReportTables(id);
      ASSERT_EQ(report.has_value(), tables.has_value());
      if (!report.has_value()) continue;
      ASSERT_EQ(report->reason == WaitReason::kNone, report->request.running);
    }
    const auto plan = silent.Schedule();
    ASSERT_EQ(asked.Schedule(), plan);
    if (silent.in_flight.size() == 2 || (!plan.has_value() && !silent.in_flight.empty())) {
      silent.Commit();
      asked.Commit();
    }
  }
  EXPECT_GT(silent.scheduler.stats().preemptions_pool, 0u);
  EXPECT_GT(silent.scheduler.stats().prefix_waits, 0u);
  EXPECT_EQ(asked.scheduler.stats().prefix_waits, silent.scheduler.stats().prefix_waits);
}

}  // namespace
}  // namespace octavo
