// The worker service over a real loopback socket.
#include "worker/transport/worker_service.h"

#include <memory>
#include <string>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/bounded_queue.h"
#include "common/rpc/grpc_status.h"
#include "common/rpc/health_client.h"
#include "common/rpc/server.h"
#include "common/rpc/step_codec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/model/loaded_model.h"
#include "tests/worker/runtime/tiny_plans.h"

namespace octavo {
namespace {

namespace v1 = worker::v1;
using ::testing::HasSubstr;

// One client's step stream.
class Stream {
 public:
  explicit Stream(v1::Worker::Stub& stub) : call_(stub.Step(&context_)) {}
  ~Stream() {
    context_.TryCancel();
    if (!finished_) Finish().IgnoreError();
  }

  bool Send(const StepPlan& plan) {
    v1::StepRequest message;
    EncodePlan(plan, message.mutable_plan());
    return Send(message);
  }
  bool Send(const v1::StepRequest& message) { return call_->Write(message); }
  absl::StatusOr<StepResult> Receive() {
    v1::StepResult message;
    if (!call_->Read(&message)) return Finish();
    return DecodeResult(message, StepLimits{});
  }
  void Cancel() { context_.TryCancel(); }
  absl::Status HalfClose() {
    call_->WritesDone();
    return Finish();
  }
  absl::Status Finish() {
    finished_ = true;
    v1::StepResult ignored;
    while (call_->Read(&ignored)) {
    }
    const absl::Status status = FromGrpcStatus(call_->Finish());
    return status.ok() ? absl::OutOfRangeError("the stream ended") : status;
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::StepRequest, v1::StepResult>> call_;
  bool finished_ = false;
};

class WorkerServiceTest : public testing::Test {
 protected:
  void SetUp() override {
    LocalExecutorOptions options;
    options.name = "worker-under-test";
    options.model_path = TestDataPath("tiny/qwen3");
    options.device.threads = 1;
    options.device.dtype = "float32";
    executor_ = *LocalExecutor::Create(options);
    service_ = std::make_unique<WorkerService>(*executor_);
    server_ = *RpcServer::Start({.health_services = {kWorkerServiceName}}, {service_.get()});
    stub_ = NewStub();
  }
  void TearDown() override {
    service_->Stop();
    server_->Shutdown(absl::Seconds(1));
  }

  std::unique_ptr<v1::Worker::Stub> NewStub() const {
    return v1::Worker::NewStub(grpc::CreateCustomChannel(
        server_->address(), grpc::InsecureChannelCredentials(), ClientChannelArguments()));
  }

  absl::Status Load(LoadProgress* last = nullptr) {
    grpc::ClientContext context;
    const auto reader = stub_->Load(&context, {});
    v1::LoadProgress message;
    while (reader->Read(&message))
      if (last != nullptr) *last = DecodeProgress(message);
    return FromGrpcStatus(reader->Finish());
  }
  absl::StatusOr<WorkerCapacity> Configure(const WorkerConfig& config) {
    grpc::ClientContext context;
    v1::ConfigureRequest request;
    v1::ConfigureResponse response;
    EncodeConfig(config, &request);
    const absl::Status status = FromGrpcStatus(stub_->Configure(&context, request, &response));
    if (!status.ok()) return status;
    return DecodeCapacity(response);
  }
  absl::Status Reset(Epoch epoch) {
    grpc::ClientContext context;
    v1::ResetRequest request;
    request.set_epoch(epoch);
    v1::ResetResponse response;
    return FromGrpcStatus(stub_->Reset(&context, request, &response));
  }
  void Begin(Epoch epoch) {
    ASSERT_TRUE(Load().ok());
    const absl::StatusOr<WorkerCapacity> capacity = Configure(TinyConfig(epoch));
    ASSERT_TRUE(capacity.ok()) << capacity.status();
  }
  // Until the worker has noticed that a stream is gone.
  absl::Status ConfigureWhenFree(const WorkerConfig& config) {
    absl::Status status;
    for (int attempt = 0; attempt < 500; ++attempt) {
      status = Configure(config).status();
      if (!absl::IsUnavailable(status)) break;
      absl::SleepFor(absl::Milliseconds(10));
    }
    return status;
  }

  std::unique_ptr<LocalExecutor> executor_;
  std::unique_ptr<WorkerService> service_;
  std::unique_ptr<RpcServer> server_;
  std::unique_ptr<v1::Worker::Stub> stub_;
};

TEST_F(WorkerServiceTest, DescribesLoadsAndConfigures) {
  grpc::ClientContext context;
  v1::DescribeResponse description;
  ASSERT_TRUE(stub_->Describe(&context, {}, &description).ok());
  EXPECT_EQ(description.name(), "worker-under-test");
  EXPECT_EQ(description.num_layers(), 2u);
  EXPECT_FALSE(description.loaded());
  EXPECT_EQ(Configure(TinyConfig(1)).status().code(), absl::StatusCode::kFailedPrecondition);
  LoadProgress last;
  ASSERT_TRUE(Load(&last).ok());
  EXPECT_GT(last.total_bytes, 100000);
  EXPECT_EQ(last.done_bytes, last.total_bytes);
  const absl::StatusOr<WorkerCapacity> fits = Configure(TinyConfig(1, 0));
  ASSERT_TRUE(fits.ok()) << fits.status();
  EXPECT_GT(fits->num_blocks, 100);
  EXPECT_THAT(fits->budget_reason, HasSubstr("4 GiB"));
  WorkerConfig bad = TinyConfig(1);
  bad.max_model_len = 1000;
  EXPECT_THAT(std::string(Configure(bad).status().message()), HasSubstr("1000"));
}

TEST_F(WorkerServiceTest, ComputesStepsInOrderAsTheExecutorDoes) {
  Begin(1);
  Stream stream(*stub_);
  ASSERT_TRUE(stream.Send(PrefillPlan(1)));
  ASSERT_TRUE(stream.Send(NextTokenPlan(1, 2)));
  std::vector<SampledToken> samples;
  for (StepId step = 1; step <= 4; ++step) {
    const absl::StatusOr<StepResult> result = stream.Receive();
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->step, step);
    samples.push_back(result->samples.at(0));
    if (step <= 2) {
      ASSERT_TRUE(stream.Send(NextTokenPlan(1, step + 2)));
    }
  }
  stream.HalfClose().IgnoreError();

  ASSERT_TRUE(ConfigureWhenFree(TinyConfig(2)).ok());
  BoundedQueue<absl::StatusOr<StepResult>> answers(8);
  ASSERT_TRUE(
      executor_->Start([&](absl::StatusOr<StepResult> answer) { answers.Push(std::move(answer)); })
          .ok());
  for (StepId step = 1; step <= 4; ++step) {
    ASSERT_TRUE(executor_->Submit(step == 1 ? PrefillPlan(2) : NextTokenPlan(2, step)).ok());
    EXPECT_EQ((**answers.Pop()).samples.at(0), samples[step - 1]);
  }
  executor_->Stop();
}

TEST_F(WorkerServiceTest, AStreamNeedsAConfiguredEpoch) {
  ASSERT_TRUE(Load().ok());
  EXPECT_EQ(Stream(*stub_).Receive().status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(WorkerServiceTest, BadPlansEndTheStreamWithAReason) {
  Begin(1);
  {
    Stream stream(*stub_);
    StepPlan bad = PrefillPlan(1);
    bad.slices[0].new_blocks = {1000};
    stream.Send(bad);
    const absl::Status status = stream.Receive().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("1000"));
  }
  Begin(2);
  Stream stream(*stub_);
  stream.Send(NextTokenPlan(2, 2));
  EXPECT_EQ(stream.Receive().status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(WorkerServiceTest, RequestsWithoutAPlanEndTheStream) {
  Begin(1);
  v1::StepRequest masks;
  masks.mutable_masks()->set_step(7);
  Stream first(*stub_);
  first.Send(masks);
  absl::Status status = first.Receive().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "masks of step 7: no step waits for masks");
  Begin(2);
  Stream second(*stub_);
  second.Send(v1::StepRequest());
  status = second.Receive().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "a step request holds neither a plan nor masks");
}

TEST_F(WorkerServiceTest, OneEpochHasOneStream) {
  Begin(1);
  Stream first(*stub_);
  ASSERT_TRUE(first.Send(PrefillPlan(1)));
  ASSERT_TRUE(first.Receive().ok());
  EXPECT_EQ(Stream(*stub_).Receive().status().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(first.Send(NextTokenPlan(1, 2)));
  EXPECT_TRUE(first.Receive().ok());
}

TEST_F(WorkerServiceTest, AStreamOfALargerEpochEndsTheOldOne) {
  Begin(1);
  Stream old(*stub_);
  ASSERT_TRUE(old.Send(PrefillPlan(1)));
  ASSERT_TRUE(old.Receive().ok());
  const auto other = NewStub();
  Begin(2);
  Stream fresh(*other);
  EXPECT_EQ(old.Receive().status().code(), absl::StatusCode::kAborted);
  ASSERT_TRUE(fresh.Send(PrefillPlan(2)));
  EXPECT_TRUE(fresh.Receive().ok());
}

TEST_F(WorkerServiceTest, AClientThatVanishesLeavesTheWorkerForTheNext) {
  Begin(8);
  {
    Stream stream(*stub_);
    ASSERT_TRUE(stream.Send(PrefillPlan(8)));
    ASSERT_TRUE(stream.Receive().ok());
    ASSERT_TRUE(stream.Send(NextTokenPlan(8, 2)));
    stream.Cancel();
  }
  ASSERT_TRUE(ConfigureWhenFree(TinyConfig(1)).ok());
  Stream stream(*stub_);
  ASSERT_TRUE(stream.Send(NextTokenPlan(1, 1)));
  EXPECT_EQ(stream.Receive().status().code(), absl::StatusCode::kFailedPrecondition)
      << "sequence 7 must be forgotten";
}

TEST_F(WorkerServiceTest, ResetEndsStreamsOfThatEpoch) {
  Begin(3);
  Stream stream(*stub_);
  ASSERT_TRUE(stream.Send(PrefillPlan(3)));
  ASSERT_TRUE(stream.Receive().ok());
  ASSERT_TRUE(Reset(2).ok());
  ASSERT_TRUE(stream.Send(NextTokenPlan(3, 2)));
  ASSERT_TRUE(stream.Receive().ok());
  ASSERT_TRUE(Reset(3).ok());
  EXPECT_EQ(stream.Receive().status().code(), absl::StatusCode::kAborted);
}

TEST_F(WorkerServiceTest, StoppingEndsStreamsAndRefusesCalls) {
  Begin(1);
  Stream stream(*stub_);
  ASSERT_TRUE(stream.Send(PrefillPlan(1)));
  ASSERT_TRUE(stream.Receive().ok());
  service_->Stop();
  EXPECT_EQ(stream.Receive().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Configure(TinyConfig(2)).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Stream(*stub_).Receive().status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(WorkerServiceTest, HealthIsWhatTheProgramSaysOfTheService) {
  EXPECT_TRUE(CheckHealth(server_->address(), "", absl::Seconds(5)).ok());
  EXPECT_EQ(CheckHealth(server_->address(), kWorkerServiceName, absl::Seconds(5)).code(),
            absl::StatusCode::kUnavailable);
  server_->SetServing(kWorkerServiceName, true);
  EXPECT_TRUE(CheckHealth(server_->address(), kWorkerServiceName, absl::Seconds(5)).ok());
}

}  // namespace
}  // namespace octavo
