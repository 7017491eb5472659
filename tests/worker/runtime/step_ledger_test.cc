#include "worker/runtime/step_ledger.h"

#include "gtest/gtest.h"

namespace octavo {
namespace {

StepPlan Plan(Epoch epoch, StepId step) {
  StepPlan plan;
  plan.epoch = epoch;
  plan.step = step;
  return plan;
}

StepResult Result(Epoch epoch, StepId step, double seconds) {
  StepResult result;
  result.epoch = epoch;
  result.step = step;
  result.compute_seconds = seconds;
  return result;
}

void ExpectRefused(StepLedger& ledger, const StepPlan& plan) {
  EXPECT_EQ(ledger.Admit(plan).status().code(), absl::StatusCode::kFailedPrecondition)
      << "epoch " << plan.epoch << " step " << plan.step;
}

TEST(StepLedger, TheFirstStepIsOne) {
  StepLedger ledger(3);
  ExpectRefused(ledger, Plan(3, 0));
  ExpectRefused(ledger, Plan(3, 2));
  EXPECT_TRUE(ledger.IsNext(Plan(3, 1)));
  ASSERT_TRUE(ledger.Admit(Plan(3, 1)).ok());
  EXPECT_FALSE(ledger.IsNext(Plan(3, 1)));
}

TEST(StepLedger, ASecondStepMayBeginBeforeTheFirstHasAResult) {
  StepLedger ledger(3);
  ASSERT_EQ(*ledger.Admit(Plan(3, 1)), nullptr);
  ASSERT_EQ(*ledger.Admit(Plan(3, 2)), nullptr);
  ExpectRefused(ledger, Plan(3, 1));
  ledger.Record(Result(3, 1, 0.5));
  EXPECT_EQ((*ledger.Admit(Plan(3, 1)))->compute_seconds, 0.5);
  ExpectRefused(ledger, Plan(3, 2));
  ASSERT_EQ(*ledger.Admit(Plan(3, 3)), nullptr);
  ledger.Record(Result(3, 2, 0.25));
  EXPECT_EQ((*ledger.Admit(Plan(3, 2)))->compute_seconds, 0.25);
}

TEST(StepLedger, AnswersARepeatedStepFromTheLastTwoResults) {
  StepLedger ledger(3);
  for (StepId step = 1; step <= 5; ++step) {
    ASSERT_EQ(*ledger.Admit(Plan(3, step)), nullptr);
    ledger.Record(Result(3, step, static_cast<double>(step)));
    EXPECT_EQ((*ledger.Admit(Plan(3, step)))->compute_seconds, step);
    if (step == 1) continue;
    EXPECT_EQ((*ledger.Admit(Plan(3, step - 1)))->compute_seconds, step - 1);
    if (step > 2) ExpectRefused(ledger, Plan(3, step - 2));
  }
}

TEST(StepLedger, RefusesGapsAndForeignEpochs) {
  StepLedger ledger(3);
  ASSERT_EQ(*ledger.Admit(Plan(3, 1)), nullptr);
  ledger.Record(Result(3, 1, 0));
  ExpectRefused(ledger, Plan(3, 3));
  ExpectRefused(ledger, Plan(3, 0));
  ExpectRefused(ledger, Plan(2, 2));
  ExpectRefused(ledger, Plan(4, 2));
}

}  // namespace
}  // namespace octavo
