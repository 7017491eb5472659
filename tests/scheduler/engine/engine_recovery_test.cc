#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/scheduler/engine/engine_fixture.h"

namespace octavo {
namespace {

using ::testing::HasSubstr;

class EngineRecoveryTest : public EngineTest {
 protected:
  // Runs `count` requests to their ends and compares every token with the undisturbed model.
  void ExpectSameTokens(int count) {
    std::vector<Request> requests;
    std::vector<std::unique_ptr<StreamReader>> readers;
    // New requests are refused while workers are lost: all are in before the first step ends.
    for (const auto& worker : workers_) worker->SetHeld(true);
    for (int i = 0; i < count; ++i) {
      requests.push_back(MakeRequest(3 + i * 5 % 60, 40, i));
      readers.push_back(Submit(requests.back()));
    }
    for (const auto& reader : readers) ASSERT_TRUE(reader->AwaitAdmitted());
    for (const auto& worker : workers_) worker->SetHeld(false);
    for (int i = 0; i < count; ++i) {
      EXPECT_TRUE(readers[i]->AwaitEnd().ok());
      EXPECT_EQ(readers[i]->tokens(), Expected(requests[i])) << "request " << i;
    }
    ExpectAllFree();
  }
};

TEST_F(EngineRecoveryTest, ABrokenStreamLosesNoToken) {
  workers_[0]->FailAfter(25, 3);
  StartEngine();
  AwaitReady();
  ExpectSameTokens(20);
  const EngineSnapshot now = engine_->snapshot();
  EXPECT_EQ(now.recoveries, 3u);
  EXPECT_EQ(now.epoch, 4u);
  EXPECT_GT(now.stats.preemptions_reset, 0u);
  EXPECT_EQ(workers_[0]->configures(), 4);
  EXPECT_EQ(workers_[0]->config().epoch, 4u);
}

TEST_F(EngineRecoveryTest, AnUnansweredStepIsALossAfterItsTime) {
  options_.step_timeout = absl::Milliseconds(100);
  workers_[0]->DropAfter(10);
  StartEngine();
  AwaitReady();
  ExpectSameTokens(5);
  EXPECT_GE(engine_->snapshot().recoveries, 1u);
}

TEST_F(EngineRecoveryTest, WaitingBehindAnotherStepDoesNotCountTowardsTheTimeout) {
  options_.step_timeout = absl::Milliseconds(1000);
  workers_[0]->SetStepTime(absl::Milliseconds(600));
  StartEngine();
  AwaitReady();
  const auto reader = Submit(MakeRequest(5, 3));
  EXPECT_TRUE(reader->AwaitEnd().ok());
  EXPECT_EQ(engine_->snapshot().recoveries, 0u);
}

TEST_F(EngineRecoveryTest, AWrongAnswerIsALossAndNotACrash) {
  StartEngine();
  AwaitReady();
  workers_[0]->SetStepTime(absl::Milliseconds(1));
  const Request request = MakeRequest(5, 50);
  const auto reader = Submit(request);
  ASSERT_TRUE(reader->AwaitTokens(5));
  workers_[0]->SetLying(true);
  EXPECT_TRUE(Eventually([this] { return engine_->snapshot().recoveries > 0; }));
  workers_[0]->SetLying(false);
  EXPECT_TRUE(reader->AwaitEnd().ok());
  EXPECT_EQ(reader->tokens(), Expected(request));
}

TEST_F(EngineRecoveryTest, StreamsWaitWhileTheWorkerIsAwayAndAbortsStillWork) {
  workers_[0]->SetStepTime(absl::Milliseconds(1));
  StartEngine();
  AwaitReady();
  const Request request = MakeRequest(5, 60);
  const auto reader = Submit(request);
  RequestId other_id = 0;
  const auto other = Submit(MakeRequest(5, 60, 1), &other_id);
  ASSERT_TRUE(reader->AwaitTokens(5));
  workers_[0]->SetUnreachable(true);
  workers_[0]->FailAfter(0);
  ASSERT_TRUE(Eventually([this] { return engine_->snapshot().state == EngineState::kRecovering; }));
  StreamReader late(4);
  EXPECT_EQ(engine_->Submit(MakeRequest(5, 4), late.stream()).status().code(),
            absl::StatusCode::kUnavailable);
  engine_->Abort(other_id);
  EXPECT_TRUE(other->AwaitEnd().ok());
  EXPECT_EQ(other->last().finish, FinishReason::kAbort);
  EXPECT_FALSE(reader->ended());
  EXPECT_TRUE(Eventually([this] { return !engine_->snapshot().workers[0].connected; }));
  workers_[0]->SetUnreachable(false);
  EXPECT_TRUE(reader->AwaitEnd().ok());
  EXPECT_EQ(reader->tokens(), Expected(request));
  EXPECT_EQ(reader->last().preemptions, 1);
  ExpectAllFree();
}

TEST_F(EngineRecoveryTest, TheLossOfOneRankIsTheLossOfTheGroup) {
  AddSecondRank();
  workers_[1]->FailAfter(20);
  StartEngine();
  AwaitReady();
  ExpectSameTokens(10);
  EXPECT_EQ(engine_->snapshot().recoveries, 1u);
  EXPECT_EQ(workers_[0]->configures(), 2);
}

TEST_F(EngineRecoveryTest, ARequestThatKeepsKillingWorkersIsEnded) {
  StartEngine();
  AwaitReady();
  workers_[0]->SetHeld(true);
  const auto reader = Submit(MakeRequest(5, 20));
  workers_[0]->FailAfter(0, 5);
  workers_[0]->SetHeld(false);
  const absl::Status end = reader->AwaitEnd();
  EXPECT_EQ(end.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(end.message(), HasSubstr("lost 5 times in a row"));
  EXPECT_EQ(engine_->snapshot().failed_requests, 1u);
  AwaitReady();
  ExpectSameTokens(3);
}

TEST_F(EngineRecoveryTest, AReplacementThatComputesDifferentlyIsNotTaken) {
  workers_[0]->SetStepTime(absl::Milliseconds(1));
  StartEngine();
  AwaitReady();
  const Request request = MakeRequest(5, 60);
  const auto reader = Submit(request);
  ASSERT_TRUE(reader->AwaitTokens(5));
  workers_[0]->SetHeld(true);
  workers_[0]->description.numeric_path = "fake/other";
  workers_[0]->FailAfter(0);
  const int before = workers_[0]->describes();
  workers_[0]->SetHeld(false);
  EXPECT_TRUE(Eventually([&] { return workers_[0]->describes() > before + 3; }));
  EXPECT_EQ(engine_->snapshot().state, EngineState::kRecovering);
  EXPECT_FALSE(reader->ended());
  engine_->Stop();
  EXPECT_EQ(reader->AwaitEnd().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace octavo
