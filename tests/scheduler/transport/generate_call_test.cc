#include "scheduler/transport/generate_call.h"

#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "tests/scheduler/engine/engine_fixture.h"
#include "tests/scheduler/transport/hash_model.h"

namespace octavo {
namespace {

// A client that reads when the test says so, or at once.
class TestSink : public MessageSink {
 public:
  explicit TestSink(bool reads_at_once) : reads_at_once_(reads_at_once) {}

  void Admitted() override {
    absl::MutexLock lock(&mutex_);
    EXPECT_TRUE(messages_.empty());
    admitted_ = true;
  }
  bool Write(v1::GenerateResponse* message, bool last) override {
    absl::MutexLock lock(&mutex_);
    EXPECT_FALSE(end_.has_value()) << "a message after the end";
    messages_.push_back(*message);
    if (last) end_ = absl::OkStatus();
    return !reads_at_once_;
  }
  void Finish(const absl::Status& status) override {
    absl::MutexLock lock(&mutex_);
    EXPECT_FALSE(end_.has_value()) << "two ends";
    end_ = status;
  }

  // Waits for so many messages, or for the end.
  std::vector<v1::GenerateResponse> Await(size_t messages) {
    absl::MutexLock lock(&mutex_);
    const auto there = [this, messages] {
      return messages_.size() >= messages || end_.has_value();
    };
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&there), absl::Minutes(1)));
    return messages_;
  }
  absl::Status AwaitEnd() {
    Await(1000000);
    absl::MutexLock lock(&mutex_);
    return end_.value_or(absl::UnknownError("no end"));
  }
  bool ended() {
    absl::MutexLock lock(&mutex_);
    return end_.has_value();
  }
  bool admitted() {
    absl::MutexLock lock(&mutex_);
    return admitted_;
  }

 private:
  const bool reads_at_once_;
  absl::Mutex mutex_;
  bool admitted_ = false;
  std::vector<v1::GenerateResponse> messages_;
  std::optional<absl::Status> end_;
};

class GenerateCallTest : public EngineTest {
 protected:
  void SetUp() override {
    StartEngine();
    AwaitReady();
    request_.mutable_sampling()->set_seed(7);
    request_.set_max_tokens(40);
    request_.set_ignore_eos(true);
    // Scores of the prompt are a message of their own, so the first one is never the last,
    // however late the dispatcher comes.
    request_.mutable_sampling()->set_prompt_logprobs(0);
    for (const uint32_t id : {1, 2, 3}) request_.mutable_token_ids()->add_ids(id);
  }

  std::shared_ptr<GenerateCall> Start(TestSink* sink, const CallOptions& options = {}) {
    return GenerateCall::Start(
        {.engine = engine_.get(), .model = &model_, .registry = &registry_, .tasks = &tasks_},
        &request_, options, sink);
  }

  std::vector<TokenId> ExpectedTokens() const {
    Request request;
    request.prompt = {1, 2, 3};
    request.max_tokens = 40;
    request.ignore_eos = true;
    request.sampling.seed = 7;
    return Expected(request);
  }

  const ServedModel model_ = MakeHashModel();
  v1::GenerateRequest request_;
  RequestRegistry registry_;
  TaskPool tasks_{1, 8};
};

std::vector<TokenId> TokensOf(const std::vector<v1::GenerateResponse>& messages) {
  std::vector<TokenId> tokens;
  for (const auto& message : messages)
    tokens.insert(tokens.end(), message.token_ids().begin(), message.token_ids().end());
  return tokens;
}

TEST_F(GenerateCallTest, WhatComesDuringAWriteIsTheNextMessage) {
  TestSink sink(/*reads_at_once=*/false);
  const auto call = Start(&sink);
  EXPECT_EQ(sink.Await(1).size(), 1u);
  EXPECT_TRUE(sink.admitted());
  EXPECT_TRUE(Eventually([this] { return engine_->snapshot().live_streams == 0; }));
  engine_->Stop();  // the dispatcher has told all
  call->OnWritten(true);
  EXPECT_TRUE(sink.AwaitEnd().ok());
  const auto messages = sink.Await(2);
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0].prompt_logprobs_size(), 2);
  EXPECT_EQ(messages[1].finish_reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(messages[1].usage().generated_tokens(), 40u);
  EXPECT_EQ(TokensOf(messages), ExpectedTokens());
  EXPECT_EQ(messages[1].text(), model_.tokenizer->Decode(ExpectedTokens(), true));
}

TEST_F(GenerateCallTest, ASinkThatIsDoneAtOnceGetsEverything) {
  TestSink sink(/*reads_at_once=*/true);
  const auto call = Start(&sink);
  EXPECT_TRUE(sink.AwaitEnd().ok());
  const auto messages = sink.Await(1);
  EXPECT_EQ(messages.back().finish_reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(TokensOf(messages), ExpectedTokens());
  ExpectAllFree();
}

TEST_F(GenerateCallTest, ACancelDuringAWriteEndsTheCallAfterIt) {
  for (const bool late : {false, true}) {
    TestSink sink(/*reads_at_once=*/false);
    const absl::Time deadline = late ? absl::InfinitePast() : absl::InfiniteFuture();
    const auto call = Start(&sink, {.deadline = deadline});
    sink.Await(1);
    call->OnCancelled();
    ExpectAllFree();
    EXPECT_FALSE(sink.ended());
    call->OnWritten(false);
    EXPECT_EQ(sink.AwaitEnd().code(),
              late ? absl::StatusCode::kDeadlineExceeded : absl::StatusCode::kCancelled);
  }
}

TEST_F(GenerateCallTest, AnAbortIsSaidInTheLastMessage) {
  workers_[0]->SetHeld(true);
  TestSink sink(/*reads_at_once=*/true);
  const auto call = Start(&sink);
  EXPECT_TRUE(Eventually([&sink] { return sink.admitted(); }));
  call->Abort();
  workers_[0]->SetHeld(false);
  EXPECT_TRUE(sink.AwaitEnd().ok());
  EXPECT_EQ(sink.Await(1).back().finish_reason(), v1::FINISH_REASON_ABORT);
  ExpectAllFree();
}

TEST_F(GenerateCallTest, WhatIsNotServedEndsTheCallWithItsReason) {
  request_.mutable_token_ids()->add_ids(64);
  TestSink sink(/*reads_at_once=*/false);
  const auto call = Start(&sink);
  EXPECT_EQ(sink.AwaitEnd().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(sink.admitted());
}

}  // namespace
}  // namespace octavo
