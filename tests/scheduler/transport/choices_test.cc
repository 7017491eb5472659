// Requests with several choices, as a client gets them.
#include <map>

#include "common/rpc/grpc_status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/fake_model.h"
#include "tests/scheduler/transport/hash_model.h"
#include "tests/scheduler/transport/server_fixture.h"

namespace octavo {
namespace {

using ::testing::SizeIs;

class ChoicesTest : public ServerTest {
 protected:
  // By index.
  std::map<uint32_t, Answer> GenerateAll(const v1::GenerateRequest& request) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Minutes(1)));
    const auto reader = stub_->Generate(&context, request);
    std::map<uint32_t, Answer> answers;
    v1::GenerateResponse message;
    messages_ = 0;
    while (reader->Read(&message)) {
      ++messages_;
      Answer& answer = answers[message.index()];
      EXPECT_EQ(answer.finish, v1::FINISH_REASON_UNSPECIFIED) << "a message after the last";
      answer.tokens.insert(answer.tokens.end(), message.token_ids().begin(),
                           message.token_ids().end());
      answer.text += message.text();
      answer.finish = message.finish_reason();
      answer.usage = message.usage();
    }
    const absl::Status status = FromGrpcStatus(reader->Finish());
    EXPECT_TRUE(status.ok()) << status;
    return answers;
  }

  std::vector<TokenId> ExpectedOf(const std::vector<TokenId>& prompt, int32_t max_tokens,
                                  uint64_t seed, uint32_t choice) const {
    Request request;
    request.prompt = prompt;
    request.max_tokens = max_tokens;
    request.ignore_eos = true;
    request.sampling.seed = seed;
    return Evaluate(request, worker_->description.vocab_size, choice).tokens;
  }

  int messages_ = 0;
};

TEST_F(ChoicesTest, EachHasItsOwnTokensTextAndEnd) {
  StartReadyServer();
  v1::GenerateRequest request = IdRequest({1, 2, 3}, 40);
  request.mutable_sampling()->set_seed(5);
  request.mutable_sampling()->set_n(8);
  const auto answers = GenerateAll(request);
  ASSERT_THAT(answers, SizeIs(8));
  std::set<std::vector<TokenId>> distinct;
  for (const auto& [index, answer] : answers) {
    EXPECT_EQ(answer.tokens, ExpectedOf({1, 2, 3}, 40, 5, index)) << index;
    EXPECT_EQ(answer.text, MakeHashModel().tokenizer->Decode(answer.tokens, true)) << index;
    EXPECT_EQ(answer.finish, v1::FINISH_REASON_LENGTH);
    EXPECT_EQ(answer.usage.prompt_tokens(), 3u);
    EXPECT_EQ(answer.usage.generated_tokens(), 40u);
    distinct.insert(answer.tokens);
  }
  EXPECT_THAT(distinct, SizeIs(8));
  request.mutable_sampling()->clear_n();
  EXPECT_EQ(Generate(request).tokens, answers.at(0).tokens);
  ExpectAllFree();
  EXPECT_EQ(server_->engine().snapshot().stats.finished_length, 2u);
  const EngineLatencies& latencies = server_->engine().snapshot().latencies;
  EXPECT_EQ(latencies.first_token.count(), 2u);
  EXPECT_EQ(latencies.end_to_end.count(), 2u);
  EXPECT_EQ(latencies.inter_token.count(), 9u * 39);  // of each choice by itself
}

TEST_F(ChoicesTest, AnAbortEndsEachOfThem) {
  StartReadyServer();
  worker_->SetStepTime(absl::Milliseconds(5));
  v1::GenerateRequest request = IdRequest({1, 2, 3}, 200);
  request.set_request_id("victim");
  request.mutable_sampling()->set_n(3);
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, request);
  v1::GenerateResponse message;
  ASSERT_TRUE(reader->Read(&message));
  grpc::ClientContext abort;
  v1::AbortRequest victim;
  victim.set_request_id("victim");
  v1::AbortResponse response;
  EXPECT_TRUE(stub_->Abort(&abort, victim, &response).ok());
  std::map<uint32_t, v1::FinishReason> ends;
  do {
    if (message.finish_reason() != v1::FINISH_REASON_UNSPECIFIED)
      ends[message.index()] = message.finish_reason();
  } while (reader->Read(&message));
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_THAT(ends, SizeIs(3));
  for (const auto& [index, reason] : ends) EXPECT_EQ(reason, v1::FINISH_REASON_ABORT) << index;
  ExpectAllFree();
}

TEST_F(ChoicesTest, BestOfReturnsSomeOfThemAtTheEnd) {
  StartReadyServer();
  v1::GenerateRequest request = IdRequest({1, 2, 3}, 30);
  request.mutable_sampling()->set_seed(5);
  request.mutable_sampling()->set_n(2);
  request.mutable_sampling()->set_best_of(6);
  const auto answers = GenerateAll(request);
  ASSERT_THAT(answers, SizeIs(2));
  EXPECT_EQ(messages_, 2);
  for (const auto& [index, answer] : answers) {
    int found = 0;
    for (uint32_t choice = 0; choice < 6; ++choice)
      found += ExpectedOf({1, 2, 3}, 30, 5, choice) == answer.tokens;
    EXPECT_EQ(found, 1) << index;
    EXPECT_EQ(answer.usage.generated_tokens(), 30u);
  }
  EXPECT_EQ(server_->engine().snapshot().stats.generated_tokens, 180u);
}

TEST_F(ChoicesTest, ALongAnswerTakesSeveralMessagesOfBoundedSize) {
  const ServedModel model = MakeHashModel();
  AnswerWriter writer(model.tokenizer.get(), "r", 1, {.choices = 2, .generated = 2});
  std::vector<TokenEvent> events(2 * 1100);
  for (size_t i = 0; i < events.size(); ++i) {
    events[i].choice_index = static_cast<int32_t>(i % 2);
    events[i].token = kHashStart;  // hidden: no text
  }
  events.back().finish = FinishReason::kLength;
  std::deque<v1::GenerateResponse> messages;
  writer.Write(events, StreamTimes{}, &messages);
  std::map<uint32_t, std::vector<int>> sizes;
  for (const auto& message : messages) sizes[message.index()].push_back(message.token_ids_size());
  EXPECT_THAT(sizes[0], ::testing::ElementsAre(512, 512, 76));
  EXPECT_THAT(sizes[1], ::testing::ElementsAre(512, 512, 76));
  EXPECT_EQ(messages.back().finish_reason(), v1::FINISH_REASON_LENGTH);
}

}  // namespace
}  // namespace octavo
