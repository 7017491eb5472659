#include <thread>

#include "common/rpc/error_details.h"
#include "common/rpc/health_client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "scheduler/transport/generation_service.h"
#include "tests/scheduler/transport/hash_model.h"
#include "tests/scheduler/transport/server_fixture.h"

namespace octavo {
namespace {

using ::testing::HasSubstr;

class FaultsTest : public ServerTest {};

TEST_F(FaultsTest, BadInputIsNamedInTheDetailsOnTheWire) {
  StartReadyServer();
  v1::GenerateRequest request = TextRequest("hi", 4);
  request.mutable_sampling()->set_top_p(2);
  const Answer answer = Generate(request);
  EXPECT_EQ(answer.status.code(), absl::StatusCode::kInvalidArgument);
  ASSERT_EQ(BadRequestOf(answer.status).size(), 1u);
  EXPECT_EQ(BadRequestOf(answer.status)[0],
            (FieldViolation{"sampling.top_p", "is 2; it must be in (0, 1]"}));
  request.mutable_sampling()->clear_top_p();
  request.mutable_sampling()->add_stop("x");
  const Answer unserved = Generate(request);
  EXPECT_EQ(unserved.status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(unserved.status.message(), HasSubstr("sampling.stop"));
  ExpectAllFree();
}

TEST_F(FaultsTest, ARequestIdInUseIsRefusedAndFreeAgainAfterwards) {
  worker_->SetHeld(true);
  StartReadyServer();
  v1::GenerateRequest request = IdRequest({1}, 5);
  request.set_request_id("one");
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, request);
  reader->WaitForInitialMetadata();
  const Answer second = Generate(request);
  EXPECT_EQ(second.status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ResourceOf(second.status), (ResourceDetail{"request", "one"}));
  worker_->SetHeld(false);
  Answer first;
  ReadAll(reader.get(), &first);
  EXPECT_TRUE(first.status.ok());
  EXPECT_TRUE(Eventually([&] { return Generate(request).status.ok(); }));
}

TEST_F(FaultsTest, AFullQueueSaysWhenToComeBack) {
  flags_.max_num_seqs = 1;
  flags_.max_queued_requests = 2;
  worker_->SetHeld(true);
  StartReadyServer();
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>>> readers;
  for (int i = 0; i < 3; ++i) {  // one runs, two wait
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    readers.push_back(stub_->Generate(contexts.back().get(), IdRequest({1, i}, 5)));
    readers.back()->WaitForInitialMetadata();
  }
  const Answer refused = Generate(IdRequest({9}, 5));
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.status.message(), HasSubstr("2"));
  ASSERT_TRUE(RetryDelayOf(refused.status).has_value());
  EXPECT_GT(*RetryDelayOf(refused.status), absl::ZeroDuration());
  EXPECT_EQ(QuotaFailureOf(refused.status).size(), 1u);
  EXPECT_EQ(refused.trailers.count("grpc-retry-pushback-ms"), 1u);
  worker_->SetHeld(false);
  for (const auto& reader : readers) {
    Answer answer;
    ReadAll(reader.get(), &answer);
    EXPECT_TRUE(answer.status.ok()) << answer.status;
  }
  ExpectAllFree();
}

TEST_F(FaultsTest, NotReadyIsUnavailableWithARetryDelay) {
  worker_->SetUnreachable(true);
  StartServer();
  EXPECT_TRUE(CheckHealth(server_->address(), "", absl::Seconds(5)).ok());
  EXPECT_FALSE(CheckHealth(server_->address(), kGenerationServiceName, absl::Seconds(5)).ok());
  EXPECT_EQ(State().state(), v1::ENGINE_STATE_CONNECTING);
  const Answer answer = Generate(IdRequest({1}, 5));
  EXPECT_EQ(answer.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(RetryDelayOf(answer.status).has_value());
  EXPECT_EQ(server_->WaitUntilReady(absl::Milliseconds(20)).code(),
            absl::StatusCode::kDeadlineExceeded);
  worker_->SetUnreachable(false);
  EXPECT_TRUE(server_->WaitUntilReady(absl::Minutes(1)).ok());
  EXPECT_TRUE(Eventually([this] {
    return CheckHealth(server_->address(), kGenerationServiceName, absl::Seconds(5)).ok();
  }));
  EXPECT_TRUE(Generate(IdRequest({1}, 5)).status.ok());
}

TEST_F(FaultsTest, CancellingFreesTheBlocks) {
  worker_->SetStepTime(absl::Milliseconds(2));
  StartReadyServer();
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, IdRequest({1, 2, 3}, 250));
  v1::GenerateResponse message;
  ASSERT_TRUE(reader->Read(&message));
  EXPECT_GT(State().blocks().active(), 0u);
  context.TryCancel();
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  ExpectAllFree();
}

TEST_F(FaultsTest, ADeadlineThatPassesFreesTheBlocks) {
  worker_->SetHeld(true);
  StartReadyServer();
  const Answer answer = Generate(IdRequest({1, 2, 3}, 250), absl::Milliseconds(50));
  EXPECT_EQ(answer.status.code(), absl::StatusCode::kDeadlineExceeded);
  worker_->SetHeld(false);
  ExpectAllFree();
  EXPECT_TRUE(Generate(IdRequest({1}, 5)).status.ok());
}

TEST_F(FaultsTest, AClientThatVanishesFreesTheBlocks) {
  worker_->SetStepTime(absl::Milliseconds(2));
  StartReadyServer();
  {
    grpc::ChannelArguments own;
    own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    const auto stub = v1::Generation::NewStub(
        grpc::CreateCustomChannel(server_->address(), grpc::InsecureChannelCredentials(), own));
    grpc::ClientContext context;
    const auto reader = stub->Generate(&context, IdRequest({1, 2, 3}, 250));
    v1::GenerateResponse message;
    ASSERT_TRUE(reader->Read(&message));
  }
  ExpectAllFree();
}

TEST_F(FaultsTest, AStormOfCancelsLeavesNothingBehind) {
  flags_.num_gpu_blocks_override = 80;
  worker_->SetStepTime(absl::Microseconds(200));
  StartReadyServer();
  std::vector<std::thread> clients;
  for (int i = 0; i < 8; ++i)
    clients.emplace_back([&, i] {
      for (int round = 0; round < 25; ++round) {
        grpc::ClientContext context;
        const auto reader = stub_->Generate(&context, IdRequest({i, round % 64, 3}, 200));
        v1::GenerateResponse message;
        for (int reads = (i + round) % 5; reads > 0; --reads) reader->Read(&message);
        context.TryCancel();
        reader->Finish();
      }
    });
  for (std::thread& client : clients) client.join();
  ExpectAllFree();
  EXPECT_TRUE(Generate(IdRequest({1}, 5)).status.ok());
}

// The end of a stream is a step of its own: a reader that takes the last token just before it must
// still end the call.
TEST_F(FaultsTest, AnEndThatComesAfterTheLastTokenWasTakenEndsTheCall) {
  StartReadyServer();
  std::vector<std::thread> clients;
  for (int i = 0; i < 4; ++i)
    clients.emplace_back([&, i] {
      for (int round = 0; round < 300; ++round) {
        const Answer answer = Generate(IdRequest({i, round % 64}, 1 + round % 5));
        ASSERT_TRUE(answer.status.ok()) << answer.status;
        ASSERT_EQ(answer.finish, v1::FINISH_REASON_LENGTH);
      }
    });
  for (std::thread& client : clients) client.join();
}

TEST_F(FaultsTest, AWorkerThatDiesDoesNotEndTheStream) {
  worker_->FailAfter(20, 2);
  worker_->SetHeld(true);
  StartReadyServer();
  v1::GenerateRequest request = IdRequest({1, 2, 3}, 100);
  request.mutable_sampling()->set_seed(3);
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, request);
  reader->WaitForInitialMetadata();
  worker_->SetHeld(false);
  Answer answer;
  ReadAll(reader.get(), &answer);
  EXPECT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(answer.tokens, Expected(request, 3));
  EXPECT_EQ(answer.usage.preemptions(), 2u);
}

TEST_F(FaultsTest, DrainRefusesNewRequestsAndFinishesRunningOnes) {
  worker_->SetHeld(true);
  StartReadyServer();
  ASSERT_TRUE(Eventually([this] {
    return CheckHealth(server_->address(), kGenerationServiceName, absl::Seconds(5)).ok();
  }));
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, IdRequest({1}, 30));
  reader->WaitForInitialMetadata();
  std::thread drain([this] { EXPECT_TRUE(server_->Drain(absl::Minutes(1))); });
  EXPECT_TRUE(Eventually([this] { return State().state() == v1::ENGINE_STATE_DRAINING; }));
  EXPECT_FALSE(CheckHealth(server_->address(), kGenerationServiceName, absl::Seconds(5)).ok());
  const Answer late = Generate(IdRequest({1}, 5));
  EXPECT_EQ(late.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(RetryDelayOf(late.status).has_value());
  worker_->SetHeld(false);
  Answer answer;
  ReadAll(reader.get(), &answer);
  EXPECT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(answer.tokens.size(), 30u);
  drain.join();
}

TEST_F(FaultsTest, StopEndsRunningStreamsWithUnavailable) {
  worker_->SetHeld(true);
  StartReadyServer();
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, IdRequest({1}, 30));
  reader->WaitForInitialMetadata();
  std::thread stop([this] { server_->Stop(); });
  Answer answer;
  ReadAll(reader.get(), &answer);
  EXPECT_EQ(answer.status.code(), absl::StatusCode::kUnavailable);
  stop.join();
}

TEST_F(FaultsTest, AWrongWorkerIsAClearRefusal) {
  worker_->description.model_digest = "other";
  StartServer();
  const absl::Status status = server_->WaitUntilReady(absl::Minutes(1));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("digest other"));
}

TEST_F(FaultsTest, ATakenPortIsAClearRefusal) {
  StartReadyServer();
  SchedulerFlags second = flags_;
  second.port = std::stoi(server_->address().substr(server_->address().rfind(':') + 1));
  const auto taken = SchedulerServer::Start(second, MakeHashModel(), {});
  EXPECT_EQ(taken.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(taken.status().message(), HasSubstr(server_->address()));
  second = flags_;
  second.metrics_port =
      std::stoi(server_->metrics_address().substr(server_->metrics_address().rfind(':') + 1));
  const auto taken_metrics = SchedulerServer::Start(second, MakeHashModel(), {});
  EXPECT_EQ(taken_metrics.status().code(), absl::StatusCode::kAlreadyExists);
}

}  // namespace
}  // namespace octavo
