#include "scheduler/engine/result_collector.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace octavo {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ResultCollectorTest : public ::testing::Test {
 protected:
  static StepResult Result(StepId step, TokenId token) {
    return {.epoch = 3, .step = step, .samples = {{.sequence = 1, .token = token}}};
  }

  std::vector<TokenId> tokens_;
  std::vector<absl::Status> lost_;
  ResultCollector collector_{2, [this](StepResult r) { tokens_.push_back(r.samples[0].token); },
                             [this](Epoch, absl::Status why) { lost_.push_back(why); }};
};

TEST_F(ResultCollectorTest, AStepIsDoneWhenEveryRankAnsweredAndRankZeroSaysWhat) {
  collector_.Begin(3);
  collector_.Answer(0, Result(1, 10));
  collector_.Answer(0, Result(2, 20));
  EXPECT_TRUE(tokens_.empty());
  collector_.Answer(1, Result(1, 99));
  EXPECT_THAT(tokens_, ElementsAre(10));
  collector_.Answer(1, Result(2, 99));
  EXPECT_THAT(tokens_, ElementsAre(10, 20));
}

TEST_F(ResultCollectorTest, TheFirstErrorEndsTheEpochOnce) {
  collector_.Begin(3);
  collector_.Answer(1, absl::UnavailableError("gone"));
  collector_.Answer(0, Result(1, 10));
  collector_.Answer(0, absl::UnavailableError("gone too"));
  collector_.Fail(absl::InternalError("again"));
  EXPECT_THAT(lost_, ElementsAre(absl::UnavailableError("gone")));
  EXPECT_TRUE(tokens_.empty());
  collector_.Begin(3);
  collector_.Answer(0, Result(1, 10));
  collector_.Answer(1, Result(1, 10));
  EXPECT_THAT(tokens_, ElementsAre(10));
}

TEST_F(ResultCollectorTest, AGapOrAForeignEpochIsALoss) {
  collector_.Begin(3);
  collector_.Answer(0, Result(2, 10));
  ASSERT_EQ(lost_.size(), 1u);
  EXPECT_THAT(lost_[0].message(), HasSubstr("answered epoch 3 step 2; expected epoch 3 step 1"));
  collector_.Begin(4);
  collector_.Answer(0, Result(1, 10));
  EXPECT_EQ(lost_.size(), 2u);
}

}  // namespace
}  // namespace octavo
