#include "scheduler/transport/remote_executor.h"

#include "absl/synchronization/mutex.h"
#include "common/rpc/server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/fake_model.h"
#include "tests/scheduler/transport/fake_worker_service.h"
#include "tests/scheduler/transport/hash_model.h"
#include "tests/scheduler/transport/server_fixture.h"

namespace octavo {
namespace {

using ::testing::HasSubstr;

class RemoteExecutorTest : public ServerTest {
 protected:
  // A worker process as far as a scheduler can see; `port` 0 takes a free one.
  void StartWorker(int port = 0) {
    service_ = std::make_unique<FakeWorkerService>(worker_);
    auto server = RpcServer::Start({.port = port}, {service_.get()});
    ASSERT_TRUE(server.ok()) << server.status();
    worker_server_ = *std::move(server);
  }
  void KillWorker() {
    worker_server_->Shutdown(absl::ZeroDuration());
    worker_server_.reset();
    service_.reset();
  }
  void StartScheduler(const std::string& target) {
    std::vector<std::unique_ptr<Executor>> executors;
    executors.push_back(std::make_unique<RemoteExecutor>(RemoteExecutorOptions{.target = target}));
    auto server = SchedulerServer::Start(flags_, MakeHashModel(), std::move(executors));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    const auto channel =
        grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials());
    stub_ = v1::Generation::NewStub(channel);
    admin_ = v1::Admin::NewStub(channel);
  }
  ~RemoteExecutorTest() override {
    if (server_ != nullptr) server_->Stop();
    if (worker_server_ != nullptr) KillWorker();
  }

  std::unique_ptr<FakeWorkerService> service_;
  std::unique_ptr<RpcServer> worker_server_;
};

TEST_F(RemoteExecutorTest, NobodyThereIsUnavailableAtOnce) {
  RemoteExecutor executor({.target = "127.0.0.1:1"});
  const absl::Status status = executor.Describe().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("worker 127.0.0.1:1"));
}

TEST_F(RemoteExecutorTest, ServesOverTheWireAsInProcess) {
  StartWorker();
  StartScheduler(worker_server_->address());
  ASSERT_TRUE(server_->WaitUntilReady(absl::Minutes(1)).ok());
  for (uint64_t seed = 0; seed < 5; ++seed) {
    v1::GenerateRequest request = IdRequest({1, 2, 3}, 50);
    request.mutable_sampling()->set_seed(seed);
    const Answer answer = Generate(request);
    ASSERT_TRUE(answer.status.ok()) << answer.status;
    EXPECT_EQ(answer.tokens, Expected(request, seed));
  }
  ExpectAllFree();
  EXPECT_EQ(State().workers(0).load_done_bytes(), 1000u);
}

TEST_F(RemoteExecutorTest, WaitsForAWorkerThatComesLater) {
  StartWorker();
  const int port = worker_server_->port();
  const std::string target = worker_server_->address();
  KillWorker();
  StartScheduler(target);
  EXPECT_EQ(server_->WaitUntilReady(absl::Milliseconds(300)).code(),
            absl::StatusCode::kDeadlineExceeded);
  StartWorker(port);
  EXPECT_TRUE(server_->WaitUntilReady(absl::Minutes(1)).ok());
  EXPECT_TRUE(Generate(IdRequest({1}, 5)).status.ok());
}

TEST_F(RemoteExecutorTest, AWorkerProcessThatDiesAndComesBackLosesNoToken) {
  worker_->SetStepTime(absl::Milliseconds(2));
  StartWorker();
  const int port = worker_server_->port();
  StartScheduler(worker_server_->address());
  ASSERT_TRUE(server_->WaitUntilReady(absl::Minutes(1)).ok());
  v1::GenerateRequest request = IdRequest({1, 2, 3}, 200);
  request.mutable_sampling()->set_seed(3);
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, request);
  Answer answer;
  v1::GenerateResponse message;
  ASSERT_TRUE(reader->Read(&message));
  answer.tokens.assign(message.token_ids().begin(), message.token_ids().end());
  const Epoch before = service_->epoch();
  KillWorker();
  EXPECT_TRUE(Eventually([this] { return State().state() == v1::ENGINE_STATE_RECOVERING; }));
  StartWorker(port);
  ReadAll(reader.get(), &answer);
  EXPECT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(answer.tokens, Expected(request, 3));
  EXPECT_EQ(answer.usage.preemptions(), 1u);
  EXPECT_GT(service_->epoch(), before);
  ExpectAllFree();
}

TEST_F(RemoteExecutorTest, ARestartedSchedulerTakesOverTheSameWorker) {
  StartWorker();
  StartScheduler(worker_server_->address());
  ASSERT_TRUE(server_->WaitUntilReady(absl::Minutes(1)).ok());
  ASSERT_TRUE(Generate(IdRequest({1}, 5)).status.ok());
  server_->Stop();
  server_.reset();
  StartScheduler(worker_server_->address());
  ASSERT_TRUE(server_->WaitUntilReady(absl::Minutes(1)).ok());
  EXPECT_TRUE(Generate(IdRequest({1}, 5)).status.ok());
}

TEST_F(RemoteExecutorTest, AnswersOutOfRangeNeverReachTheCore) {
  worker_->SetStepTime(absl::Milliseconds(1));
  StartWorker();
  StartScheduler(worker_server_->address());
  ASSERT_TRUE(server_->WaitUntilReady(absl::Minutes(1)).ok());
  v1::GenerateRequest request = IdRequest({1, 2, 3}, 60);
  request.mutable_sampling()->set_seed(3);
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, request);
  reader->WaitForInitialMetadata();
  worker_->SetLying(true);
  EXPECT_TRUE(Eventually([this] { return server_->engine().snapshot().recoveries > 0; }));
  worker_->SetLying(false);
  Answer answer;
  ReadAll(reader.get(), &answer);
  EXPECT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(answer.tokens, Expected(request, 3));
}

TEST_F(RemoteExecutorTest, StopsWhileTheWorkerIsSilent) {
  worker_->SetHeld(true);
  StartWorker();
  StartScheduler(worker_server_->address());
  ASSERT_TRUE(server_->WaitUntilReady(absl::Minutes(1)).ok());
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, IdRequest({1}, 5));
  reader->WaitForInitialMetadata();
  const absl::Time start = absl::Now();
  server_->Stop();
  EXPECT_LT(absl::Now() - start, absl::Seconds(10));
}

}  // namespace
}  // namespace octavo
