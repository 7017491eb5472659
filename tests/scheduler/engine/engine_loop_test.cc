#include "scheduler/engine/engine_loop.h"

#include <random>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/scheduler/engine/engine_fixture.h"

namespace octavo {
namespace {

using ::testing::HasSubstr;

TEST_F(EngineTest, StreamsEveryTokenOfManyRequests) {
  StartEngine();
  AwaitReady();
  std::vector<Request> requests;
  std::vector<std::unique_ptr<StreamReader>> readers;
  for (int i = 0; i < 50; ++i) {
    requests.push_back(MakeRequest(1 + i * 3 % 100, 1 + i % 30, i));
    readers.push_back(Submit(requests.back()));
  }
  for (int i = 0; i < 50; ++i) {
    EXPECT_TRUE(readers[i]->AwaitEnd().ok());
    EXPECT_EQ(readers[i]->tokens(), Expected(requests[i])) << "request " << i;
    const TokenEvent last = readers[i]->last();
    EXPECT_EQ(last.finish, FinishReason::kLength);
    EXPECT_EQ(last.prompt_tokens, static_cast<int32_t>(requests[i].prompt.size()));
    EXPECT_EQ(last.generated_tokens, requests[i].max_tokens);
    const StreamTimes times = readers[i]->times();
    EXPECT_LE(times.arrival, times.first_scheduled);
    EXPECT_LE(times.first_scheduled, times.first_token);
    EXPECT_LE(times.first_token, times.last_token);
  }
  ExpectAllFree();
  const EngineSnapshot now = engine_->snapshot();
  EXPECT_EQ(now.latencies.first_token.count(), 50u);
  EXPECT_EQ(now.latencies.end_to_end.count(), 50u);
  EXPECT_EQ(now.latencies.queue.count(), 50u);
  EXPECT_EQ(now.latencies.inter_token.count(), now.stats.generated_tokens - 50);
  EXPECT_EQ(now.latencies.worker.count(), now.stats.steps);
  EXPECT_TRUE(now.capacity.mean_is_measured);
}

TEST_F(EngineTest, RefusesUntilReadyAndReportsProgress) {
  workers_[0]->SetUnreachable(true);
  StartEngine();
  StreamReader reader(4);
  EXPECT_EQ(engine_->Submit(MakeRequest(4, 4), reader.stream()).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(engine_->snapshot().state, EngineState::kConnecting);
  EXPECT_TRUE(Eventually([this] { return workers_[0]->describes() > 3; }));
  workers_[0]->SetUnreachable(false);
  AwaitReady();
  const EngineSnapshot now = engine_->snapshot();
  ASSERT_EQ(now.workers.size(), 1u);
  EXPECT_TRUE(now.workers[0].connected);
  EXPECT_EQ(now.workers[0].load_done_bytes, 1000);
  EXPECT_EQ(now.capacity.num_blocks, 100);
  EXPECT_EQ(now.capacity.geometry.bytes_per_token(), 2 * 2 * 2 * 8 * 2);
  EXPECT_FALSE(now.capacity.mean_is_measured);
  EXPECT_EQ(now.capacity.mean_tokens, 512);
  EXPECT_EQ(workers_[0]->config().num_blocks, 100);
  EXPECT_EQ(workers_[0]->config().max_model_len, 256);
}

TEST_F(EngineTest, AWorkerOfAnotherModelIsRefusedByName) {
  workers_[0]->description.model_digest = "other";
  StartEngine();
  ASSERT_TRUE(Eventually([this] { return engine_->snapshot().state == EngineState::kFailed; }));
  EXPECT_THAT(engine_->snapshot().failure.message(),
              HasSubstr("worker fake has model hash with digest other"));
}

TEST_F(EngineTest, AWorkerOfAnotherShapeIsRefused) {
  workers_[0]->description.kv_shape.num_layers = 3;
  StartEngine();
  ASSERT_TRUE(Eventually([this] { return engine_->snapshot().state == EngineState::kFailed; }));
  EXPECT_THAT(engine_->snapshot().failure.message(), HasSubstr("3 layers x 2 kv_heads"));
}

TEST_F(EngineTest, APoolTooSmallForOneRequestIsRefusedWithTheLongestThatFits) {
  workers_[0]->fitting_blocks = 31;
  StartEngine();
  ASSERT_TRUE(Eventually([this] { return engine_->snapshot().state == EngineState::kFailed; }));
  EXPECT_THAT(
      engine_->snapshot().failure.message(),
      HasSubstr("max_model_len is 256 tokens; the 31 KV blocks of 8 tokens hold at most 248"));
}

TEST_F(EngineTest, TheOverrideDecidesTheNumberOfBlocks) {
  options_.group.num_blocks_override = 40;
  StartEngine();
  AwaitReady();
  EXPECT_EQ(workers_[0]->config().num_blocks, 40);
  EXPECT_EQ(engine_->snapshot().stats.num_blocks, 40);
}

TEST_F(EngineTest, SeveralRanksAnswerAsOneWithTheSmallestPool) {
  AddSecondRank();
  workers_[1]->fitting_blocks = 50;
  StartEngine();
  AwaitReady();
  EXPECT_EQ(workers_[0]->config().num_blocks, 50);
  const Request request = MakeRequest(20, 20);
  const auto reader = Submit(request);
  EXPECT_TRUE(reader->AwaitEnd().ok());
  EXPECT_EQ(reader->tokens(), Expected(request));
  ExpectAllFree();
  EXPECT_EQ(workers_[0]->steps(), workers_[1]->steps());
}

TEST_F(EngineTest, ASmallPoolPreemptsAndTheTokensStayTheSame) {
  options_.group.num_blocks_override = 40;
  StartEngine();
  AwaitReady();
  std::vector<Request> requests;
  std::vector<std::unique_ptr<StreamReader>> readers;
  for (int i = 0; i < 30; ++i) {
    requests.push_back(MakeRequest(10 + i, 60, i));
    readers.push_back(Submit(requests.back()));
  }
  for (int i = 0; i < 30; ++i) {
    EXPECT_TRUE(readers[i]->AwaitEnd().ok());
    EXPECT_EQ(readers[i]->tokens(), Expected(requests[i])) << "request " << i;
  }
  ExpectAllFree();
  EXPECT_GT(engine_->snapshot().stats.preemptions_pool, 0u);
}

TEST_F(EngineTest, AbortEndsTheStreamAndFreesItsBlocks) {
  workers_[0]->SetStepTime(absl::Milliseconds(1));
  StartEngine();
  AwaitReady();
  RequestId id = 0;
  const auto reader = Submit(MakeRequest(10, 200), &id);
  ASSERT_TRUE(reader->AwaitTokens(3));
  engine_->Abort(id);
  engine_->Abort(id + 1000);
  EXPECT_TRUE(reader->AwaitEnd().ok());
  EXPECT_EQ(reader->last().finish, FinishReason::kAbort);
  ExpectAllFree();
}

TEST_F(EngineTest, AStormOfAbortsLeavesNothingBehind) {
  options_.group.num_blocks_override = 60;
  StartEngine();
  AwaitReady();
  std::mt19937 random(7);
  std::vector<std::unique_ptr<StreamReader>> readers;
  std::vector<RequestId> ids;
  for (int i = 0; i < 400; ++i) {
    RequestId id = 0;
    readers.push_back(Submit(MakeRequest(1 + static_cast<int>(random() % 60), 100, i), &id));
    ids.push_back(id);
    if (random() % 2 == 0) engine_->Abort(ids[random() % ids.size()]);
    if (i % 20 == 0) absl::SleepFor(absl::Milliseconds(1));
  }
  for (const RequestId id : ids) engine_->Abort(id);
  for (const auto& reader : readers) EXPECT_TRUE(reader->AwaitEnd().ok());
  ExpectAllFree();
  // The engine still serves.
  const Request request = MakeRequest(10, 5);
  const auto reader = Submit(request);
  EXPECT_TRUE(reader->AwaitEnd().ok());
  EXPECT_EQ(reader->tokens(), Expected(request));
}

TEST_F(EngineTest, ARequestThatCanNeverRunIsRefusedThroughItsStream) {
  StartEngine();
  AwaitReady();
  const auto reader = Submit(MakeRequest(250, 10));
  EXPECT_EQ(reader->AwaitEnd().code(), absl::StatusCode::kInvalidArgument);
  ExpectAllFree();
}

TEST_F(EngineTest, AFullQueueRefusesWithNumbers) {
  options_.scheduler.max_queued_requests = 3;
  options_.scheduler.max_num_seqs = 1;
  options_.group.config.max_num_seqs = 1;
  workers_[0]->SetHeld(true);
  StartEngine();
  AwaitReady();
  std::vector<std::unique_ptr<StreamReader>> readers;
  int refused = 0;
  for (int i = 0; i < 20; ++i) {
    auto reader = std::make_unique<StreamReader>(4);
    const auto submitted = engine_->Submit(MakeRequest(4, 4, i), reader->stream());
    if (!submitted.ok()) {
      EXPECT_EQ(submitted.status().code(), absl::StatusCode::kResourceExhausted);
      ++refused;
      continue;
    }
    absl::SleepFor(absl::Milliseconds(2));  // to the next step boundary
    readers.push_back(std::move(reader));
  }
  EXPECT_TRUE(Eventually([&] {
    refused = static_cast<int>(20 - readers.size());
    for (const auto& reader : readers) refused += reader->ended() ? 1 : 0;
    return refused >= 16;
  })) << refused;
  workers_[0]->SetHeld(false);
  int served = 0;
  for (const auto& reader : readers) {
    const absl::Status end = reader->AwaitEnd();
    if (end.ok()) {
      ++served;
    } else {
      EXPECT_EQ(end.code(), absl::StatusCode::kResourceExhausted);
      EXPECT_THAT(end.message(), HasSubstr("3"));
    }
  }
  EXPECT_GE(served, 3);
  ExpectAllFree();
}

TEST_F(EngineTest, AClientThatDoesNotReadCostsNobodyElse) {
  StartEngine();
  AwaitReady();
  // Its callback never takes anything.
  auto silent = std::make_shared<TokenStream>(100, 1, [] {});
  ASSERT_TRUE(engine_->Submit(MakeRequest(5, 100, 1), silent).ok());
  const Request request = MakeRequest(5, 100, 2);
  const auto reader = Submit(request);
  EXPECT_TRUE(reader->AwaitEnd().ok());
  ExpectAllFree();
  const TokenStream::Batch batch = silent->Take();
  EXPECT_EQ(batch.tokens.size(), 100u);
  EXPECT_EQ(batch.end, absl::OkStatus());
}

TEST_F(EngineTest, DrainRefusesNewRequestsAndLetsRunningOnesEnd) {
  workers_[0]->SetHeld(true);
  StartEngine();
  AwaitReady();
  const auto reader = Submit(MakeRequest(5, 20));
  ASSERT_TRUE(reader->AwaitAdmitted());
  engine_->Drain();
  StreamReader late(4);
  EXPECT_EQ(engine_->Submit(MakeRequest(5, 4), late.stream()).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_FALSE(engine_->AwaitDrained(absl::Milliseconds(20)));
  EXPECT_TRUE(engine_->snapshot().draining);
  workers_[0]->SetHeld(false);
  EXPECT_TRUE(engine_->AwaitDrained(absl::Seconds(30)));
  EXPECT_TRUE(reader->AwaitEnd().ok());
  EXPECT_EQ(reader->tokens().size(), 20u);
}

TEST_F(EngineTest, StopEndsEveryStream) {
  workers_[0]->SetHeld(true);
  StartEngine();
  AwaitReady();
  const auto reader = Submit(MakeRequest(5, 20));
  engine_->Stop();
  EXPECT_EQ(reader->AwaitEnd().code(), absl::StatusCode::kUnavailable);
  StreamReader late(4);
  EXPECT_EQ(engine_->Submit(MakeRequest(5, 4), late.stream()).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(EngineTest, StopsWhileNoWorkerAnswers) {
  workers_[0]->SetUnreachable(true);
  StartEngine();
  EXPECT_TRUE(Eventually([this] { return workers_[0]->describes() > 0; }));
  engine_->Stop();
}

}  // namespace
}  // namespace octavo
