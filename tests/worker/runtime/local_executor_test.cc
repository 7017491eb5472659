#include "worker/runtime/local_executor.h"

#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "common/bounded_queue.h"
#include "common/check.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/model/loaded_model.h"
#include "tests/worker/runtime/tiny_plans.h"

namespace octavo {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Seconds(30);

class LocalExecutorTest : public testing::Test {
 protected:
  void SetUp() override {
    LocalExecutorOptions options;
    options.model_path = TestDataPath("tiny/qwen3");
    options.device.threads = 1;
    options.device.dtype = "float32";
    absl::StatusOr<std::unique_ptr<LocalExecutor>> executor = LocalExecutor::Create(options);
    ASSERT_TRUE(executor.ok()) << executor.status();
    executor_ = *std::move(executor);
  }

  void Begin(Epoch epoch) {
    ASSERT_TRUE(executor_->Load(nullptr).ok());
    const absl::StatusOr<WorkerCapacity> capacity = executor_->Configure(TinyConfig(epoch));
    ASSERT_TRUE(capacity.ok()) << capacity.status();
    ASSERT_EQ(capacity->num_blocks, 16);
    Start();
  }
  void Start() { ASSERT_TRUE(executor_->Start(Sink()).ok()); }

  Executor::ResultSink Sink() {
    return [this](absl::StatusOr<StepResult> answer) {
      OCTAVO_CHECK(answers_.TryPush(std::move(answer)));
    };
  }

  absl::StatusOr<StepResult> Answer() {
    std::optional<absl::StatusOr<StepResult>> answer = answers_.Pop(kPatience);
    if (!answer) return absl::DeadlineExceededError("no answer");
    return *std::move(answer);
  }
  absl::StatusOr<StepResult> Run(const StepPlan& plan) {
    if (absl::Status status = executor_->Submit(plan); !status.ok()) return status;
    return Answer();
  }
  void ExpectRefused(const StepPlan& plan, absl::StatusCode code) {
    EXPECT_EQ(Run(plan).status().code(), code);
    // The stream is over, and the process lives.
    EXPECT_EQ(executor_->Submit(PrefillPlan(1)).code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_TRUE(executor_->Describe()->loaded);
  }

  BoundedQueue<absl::StatusOr<StepResult>> answers_{64};  // outlives the executor
  std::unique_ptr<LocalExecutor> executor_;
};

TEST_F(LocalExecutorTest, DescribesTheModelBeforeAndAfterLoading) {
  absl::StatusOr<WorkerDescription> description = executor_->Describe();
  ASSERT_TRUE(description.ok());
  EXPECT_FALSE(description->loaded);
  EXPECT_EQ(description->kv_shape, (KvShape{2, 2, 32}));
  EXPECT_EQ(description->vocab_size, 256);
  EXPECT_EQ(description->max_positions, 256);
  EXPECT_THAT(description->numeric_path, HasSubstr("/float32"));
  EXPECT_FALSE(description->model_digest.empty());
  EXPECT_GT(description->memory_total_bytes, description->memory_free_bytes);
  ASSERT_TRUE(executor_->Load(nullptr).ok());
  EXPECT_TRUE(executor_->Describe()->loaded);
}

TEST_F(LocalExecutorTest, SeveralCallersJoinOneLoad) {
  std::vector<std::thread> callers;
  std::vector<absl::Status> statuses(4, absl::UnknownError("not run"));
  std::vector<LoadProgress> last(4);
  for (size_t i = 0; i < statuses.size(); ++i)
    callers.emplace_back([&, i] {
      statuses[i] = executor_->Load([&, i](const LoadProgress& progress) { last[i] = progress; });
    });
  for (std::thread& caller : callers) caller.join();
  for (size_t i = 0; i < statuses.size(); ++i) {
    EXPECT_TRUE(statuses[i].ok()) << statuses[i];
    EXPECT_EQ(last[i].done_bytes, last[i].total_bytes);
    EXPECT_GT(last[i].total_bytes, 100000);
  }
}

TEST_F(LocalExecutorTest, RefusesToConfigureBeforeItIsLoaded) {
  EXPECT_EQ(executor_->Configure(TinyConfig(1)).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(executor_->Start(Sink()).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(LocalExecutorTest, AnswersInOrderWithTwoStepsInFlight) {
  Begin(1);
  ASSERT_TRUE(executor_->Submit(PrefillPlan(1)).ok());
  ASSERT_TRUE(executor_->Submit(NextTokenPlan(1, 2)).ok());
  std::vector<TokenId> tokens;
  for (StepId step = 1; step <= 5; ++step) {
    const absl::StatusOr<StepResult> result = Answer();
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->step, step);
    EXPECT_EQ(result->epoch, 1u);
    EXPECT_GT(result->compute_seconds, 0);
    ASSERT_EQ(result->samples.size(), 1u);
    EXPECT_EQ(result->samples[0].sequence, 7u);
    EXPECT_EQ(result->samples[0].top.size(), 3u);
    tokens.push_back(result->samples[0].token);
    if (step + 2 <= 5) {
      ASSERT_TRUE(executor_->Submit(NextTokenPlan(1, step + 2)).ok());
    }
  }
  // Feeding the sampled tokens equals a prompt that contains them.
  executor_->Stop();
  Begin(2);
  StepPlan whole = PrefillPlan(2);
  whole.slices[0].tokens.insert(whole.slices[0].tokens.end(), tokens.begin(), tokens.end() - 1);
  whole.slices[0].num_tokens += 4;
  EXPECT_EQ(Run(whole)->samples[0].token, tokens.back());
}

TEST_F(LocalExecutorTest, ARepeatedStepIsAnsweredFromTheLastTwo) {
  Begin(1);
  const absl::StatusOr<StepResult> first = Run(PrefillPlan(1));
  const absl::StatusOr<StepResult> second = Run(NextTokenPlan(1, 2));
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(Run(NextTokenPlan(1, 2))->samples, second->samples);
  EXPECT_EQ(Run(PrefillPlan(1))->samples, first->samples);
  EXPECT_TRUE(Run(NextTokenPlan(1, 3)).ok());
  ExpectRefused(PrefillPlan(1), absl::StatusCode::kFailedPrecondition);
}

TEST_F(LocalExecutorTest, AGapEndsTheStream) {
  Begin(1);
  ASSERT_TRUE(Run(PrefillPlan(1)).ok());
  ExpectRefused(NextTokenPlan(1, 3), absl::StatusCode::kFailedPrecondition);
}

TEST_F(LocalExecutorTest, AForeignEpochEndsTheStream) {
  Begin(3);
  ExpectRefused(PrefillPlan(2), absl::StatusCode::kFailedPrecondition);
}

TEST_F(LocalExecutorTest, ABadPlanEndsTheStreamAndANewEpochStartsClean) {
  Begin(1);
  ASSERT_TRUE(Run(PrefillPlan(1)).ok());
  StepPlan bad = NextTokenPlan(1, 2);
  bad.slices[0].new_blocks = {17};
  ExpectRefused(bad, absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(executor_->Start(Sink()).code(), absl::StatusCode::kFailedPrecondition);
  Begin(2);
  EXPECT_TRUE(Run(PrefillPlan(2)).ok());
}

TEST_F(LocalExecutorTest, NothingIsAnsweredAfterAnError) {
  Begin(1);
  StepPlan bad = PrefillPlan(1);
  bad.slices[0].tokens[0] = 1000;
  executor_->Submit(bad).IgnoreError();
  executor_->Submit(NextTokenPlan(1, 2)).IgnoreError();
  EXPECT_EQ(Answer().status().code(), absl::StatusCode::kInvalidArgument);
  executor_->Stop();
  EXPECT_EQ(answers_.size(), 0u);
}

TEST_F(LocalExecutorTest, TakesTwoStepsInFlightAndNoMore) {
  ASSERT_TRUE(executor_->Load(nullptr).ok());
  ASSERT_TRUE(executor_->Configure(TinyConfig(1)).ok());
  absl::Notification go;
  ASSERT_TRUE(executor_
                  ->Start([&](absl::StatusOr<StepResult> answer) {
                    if (answer.ok() && answer->step == 1) go.WaitForNotification();
                  })
                  .ok());
  ASSERT_TRUE(executor_->Submit(PrefillPlan(1)).ok());
  StepId submitted = 1;
  absl::Status status;
  // Step 1 is answered but its sink holds the device: two more fit.
  while (status.ok() && submitted < 5) status = executor_->Submit(NextTokenPlan(1, ++submitted));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_LE(submitted, 4u);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the limit is 2"));
  go.Notify();
  executor_->Stop();  // the sink may not have looked at `go` yet
}

TEST_F(LocalExecutorTest, StopDropsPlansInFlightAndCallsNoSinkAfterwards) {
  for (Epoch epoch = 1; epoch <= 20; ++epoch) {
    Begin(epoch);
    ASSERT_TRUE(executor_->Submit(PrefillPlan(epoch)).ok());
    ASSERT_TRUE(executor_->Submit(NextTokenPlan(epoch, 2)).ok());
    executor_->Stop();
    while (answers_.TryPop()) {
    }
    EXPECT_EQ(executor_->Submit(NextTokenPlan(epoch, 3)).code(),
              absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(answers_.size(), 0u);
  }
}

TEST_F(LocalExecutorTest, ALargerEpochEndsTheOpenStream) {
  Begin(1);
  ASSERT_TRUE(Run(PrefillPlan(1)).ok());
  EXPECT_EQ(executor_->Configure(TinyConfig(1)).status().code(), absl::StatusCode::kUnavailable);
  ASSERT_TRUE(executor_->Configure(TinyConfig(2)).ok());
  EXPECT_EQ(Answer().status().code(), absl::StatusCode::kAborted);
  Start();
  EXPECT_EQ(executor_->OpenSession(Sink()).status().code(), absl::StatusCode::kFailedPrecondition)
      << "two streams of one epoch";
  // Its sequences are forgotten.
  ExpectRefused(NextTokenPlan(2, 1), absl::StatusCode::kFailedPrecondition);
}

TEST_F(LocalExecutorTest, ARestartedSchedulerMayBeginWithASmallerEpoch) {
  Begin(9);
  executor_->Stop();
  Begin(1);
  EXPECT_TRUE(Run(PrefillPlan(1)).ok());
}

TEST_F(LocalExecutorTest, EndEpochsEndsThoseUpToItsArgument) {
  Begin(5);
  executor_->EndEpochs(4, absl::AbortedError("reset"));
  ASSERT_TRUE(Run(PrefillPlan(5)).ok());
  executor_->EndEpochs(5, absl::AbortedError("reset"));
  EXPECT_EQ(Answer().status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(executor_->Start(Sink()).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(LocalExecutorTest, AskingHowManyBlocksFitDisturbsNoStream) {
  Begin(1);
  ASSERT_TRUE(Run(PrefillPlan(1)).ok());
  const absl::StatusOr<WorkerCapacity> capacity = executor_->Configure(TinyConfig(1, 0));
  ASSERT_TRUE(capacity.ok()) << capacity.status();
  EXPECT_GT(capacity->num_blocks, 0);
  EXPECT_THAT(capacity->budget_reason, HasSubstr("min(4 GiB"));
  EXPECT_TRUE(Run(NextTokenPlan(1, 2)).ok());
}

TEST(LocalExecutor, NamesAModelThatIsNotThere) {
  LocalExecutorOptions options;
  options.model_path = "/nowhere/model.gguf";
  const absl::Status status = LocalExecutor::Create(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nowhere/model.gguf"));
}

TEST(LocalExecutor, StopsLoadingWhenDestroyed) {
  LocalExecutorOptions options;
  options.model_path = RealModelPath();
  const absl::Time start = absl::Now();
  {
    absl::StatusOr<std::unique_ptr<LocalExecutor>> executor = LocalExecutor::Create(options);
    ASSERT_TRUE(executor.ok()) << executor.status();
    (*executor)->BeginLoad();
  }
  EXPECT_LT(absl::Now() - start, kPatience);
}

}  // namespace
}  // namespace octavo
