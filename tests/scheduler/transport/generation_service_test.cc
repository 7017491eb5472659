#include "scheduler/transport/generation_service.h"

#include <thread>

#include "common/rpc/grpc_status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/fake_model.h"
#include "tests/scheduler/transport/hash_model.h"
#include "tests/scheduler/transport/server_fixture.h"

namespace octavo {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(ServerTest, StreamsTokensTextAndUsage) {
  StartReadyServer();
  v1::GenerateRequest request = IdRequest({1, 2, 3}, 40);
  request.set_request_id("mine");
  request.mutable_sampling()->set_seed(5);
  const Answer answer = Generate(request);
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(answer.request_id, "mine");
  EXPECT_EQ(answer.tokens, Expected(request, 5));
  EXPECT_EQ(answer.text, MakeHashModel().tokenizer->Decode(answer.tokens, true));
  EXPECT_EQ(answer.finish, v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(answer.usage.prompt_tokens(), 3u);
  EXPECT_EQ(answer.usage.generated_tokens(), 40u);
  EXPECT_EQ(answer.usage.seed(), 5u);
  EXPECT_GE(answer.usage.queue_seconds(), 0);
  EXPECT_GE(answer.usage.first_token_seconds(), answer.usage.queue_seconds());
  EXPECT_GE(answer.usage.total_seconds(), answer.usage.first_token_seconds());
  EXPECT_TRUE(answer.logprobs.empty());
  ExpectAllFree();
}

TEST_F(ServerTest, ASeedIsDrawnReportedAndReproduces) {
  StartReadyServer();
  v1::GenerateRequest request = IdRequest({1, 2, 3}, 20);
  const Answer first = Generate(request);
  const Answer second = Generate(request);
  EXPECT_NE(first.usage.seed(), second.usage.seed());
  EXPECT_NE(first.tokens, second.tokens);
  EXPECT_NE(first.request_id, second.request_id);
  request.mutable_sampling()->set_seed(first.usage.seed());
  EXPECT_EQ(Generate(request).tokens, first.tokens);
}

TEST_F(ServerTest, TheEndTokenIsReportedAndItsTextHidden) {
  StartReadyServer();
  v1::GenerateRequest request = TextRequest("the cat", 200);
  uint64_t seed = 0;
  while (Expected(request, seed).back() != kHashEnd || Expected(request, seed).size() < 3) ++seed;
  request.mutable_sampling()->set_seed(seed);
  const Answer answer = Generate(request);
  EXPECT_EQ(answer.finish, v1::FINISH_REASON_STOP);
  EXPECT_EQ(answer.tokens.back(), kHashEnd);
  EXPECT_EQ(answer.tokens, Expected(request, seed));
  EXPECT_THAT(answer.text, Not(HasSubstr("im_end")));
  std::vector<TokenId> shown(answer.tokens.begin(), answer.tokens.end() - 1);
  EXPECT_EQ(answer.text, MakeHashModel().tokenizer->Decode(shown, true));
}

TEST_F(ServerTest, EveryMessageHoldsWholeCharacters) {
  StartReadyServer();
  for (uint64_t seed = 0; seed < 20; ++seed) {
    v1::GenerateRequest request = IdRequest({37, 38}, 60);
    request.mutable_sampling()->set_seed(seed);
    grpc::ClientContext context;
    const auto reader = stub_->Generate(&context, request);
    v1::GenerateResponse message;
    std::string text;
    std::vector<TokenId> tokens;
    // A message with half a character would not parse: proto3 strings are UTF-8.
    while (reader->Read(&message)) {
      text += message.text();
      tokens.insert(tokens.end(), message.token_ids().begin(), message.token_ids().end());
    }
    EXPECT_TRUE(reader->Finish().ok());
    EXPECT_EQ(tokens.size(), 60u);
    EXPECT_EQ(text, MakeHashModel().tokenizer->Decode(tokens, true));
  }
}

TEST_F(ServerTest, ServesHundredsOfStreamsAtOnce) {
  flags_.max_num_seqs = 64;
  flags_.num_gpu_blocks_override = 200;
  StartReadyServer();
  constexpr int kStreams = 200;
  std::vector<v1::GenerateRequest> requests(kStreams);
  std::vector<Answer> answers(kStreams);
  std::vector<std::thread> clients;
  for (int i = 0; i < kStreams; ++i) {
    requests[i] = IdRequest({i % 64, (i * 7) % 64, 5}, 1 + i % 50);
    requests[i].mutable_sampling()->set_seed(static_cast<uint64_t>(i));
    clients.emplace_back([&, i] { answers[i] = Generate(requests[i]); });
  }
  for (std::thread& client : clients) client.join();
  for (int i = 0; i < kStreams; ++i) {
    EXPECT_TRUE(answers[i].status.ok()) << answers[i].status;
    EXPECT_EQ(answers[i].tokens, Expected(requests[i], static_cast<uint64_t>(i))) << i;
  }
  ExpectAllFree();
}

TEST_F(ServerTest, ScoresThePromptOnceBeforeTheFirstToken) {
  flags_.max_prefill_chunk = 3;
  StartReadyServer();
  v1::GenerateRequest request = IdRequest({5, 6, 7, 8, 9, 10, 11}, 4);
  request.mutable_sampling()->set_prompt_logprobs(2);
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, request);
  v1::GenerateResponse message;
  std::vector<v1::TokenLogprob> scores;
  int tokens = 0;
  while (reader->Read(&message)) {
    EXPECT_TRUE(message.prompt_logprobs_size() == 0 || tokens == 0);
    scores.insert(scores.end(), message.prompt_logprobs().begin(), message.prompt_logprobs().end());
    tokens += message.token_ids_size();
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(tokens, 4);
  Request asked;
  asked.prompt = {5, 6, 7, 8, 9, 10, 11};
  asked.prompt_logprobs = 2;
  const std::vector<ScoredToken> expected = EvaluateScores(asked, 64);
  ASSERT_EQ(scores.size(), expected.size());
  for (size_t i = 0; i < scores.size(); ++i) {
    EXPECT_EQ(scores[i].token_id(), static_cast<uint32_t>(expected[i].token));
    EXPECT_EQ(scores[i].logprob(), expected[i].logprob);
    ASSERT_EQ(scores[i].top_size(), 2);
    EXPECT_EQ(scores[i].top(1).token_id(), static_cast<uint32_t>(expected[i].top[1].token));
  }
}

TEST_F(ServerTest, AdmissionShowsAsInitialMetadata) {
  worker_->SetHeld(true);
  StartReadyServer();
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, IdRequest({1}, 5));
  reader->WaitForInitialMetadata();  // before any token
  EXPECT_EQ(worker_->steps(), 0);
  worker_->SetHeld(false);
  Answer answer;
  ReadAll(reader.get(), &answer);
  EXPECT_TRUE(answer.status.ok());
  EXPECT_EQ(answer.tokens.size(), 5u);
}

TEST_F(ServerTest, AbortEndsTheStreamWithItsReason) {
  worker_->SetStepTime(absl::Milliseconds(2));
  StartReadyServer();
  v1::GenerateRequest request = IdRequest({1}, 250);
  request.set_request_id("long");
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, request);
  v1::GenerateResponse message;
  ASSERT_TRUE(reader->Read(&message));
  v1::AbortRequest abort;
  abort.set_request_id("long");
  v1::AbortResponse aborted;
  grpc::ClientContext abort_context;
  EXPECT_TRUE(stub_->Abort(&abort_context, abort, &aborted).ok());
  EXPECT_TRUE(aborted.found());
  Answer answer;
  ReadAll(reader.get(), &answer);
  EXPECT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(answer.finish, v1::FINISH_REASON_ABORT);
  EXPECT_LT(answer.usage.generated_tokens(), 250u);
  ExpectAllFree();
  grpc::ClientContext again;
  EXPECT_TRUE(stub_->Abort(&again, abort, &aborted).ok());
  EXPECT_FALSE(aborted.found());
}

TEST_F(ServerTest, TokenizesAndDetokenizes) {
  StartReadyServer();
  v1::TokenizeRequest request;
  request.set_text("the <|im_end|>");
  v1::TokenizeResponse response;
  grpc::ClientContext context;
  ASSERT_TRUE(stub_->Tokenize(&context, request, &response).ok());
  EXPECT_EQ(response.token_ids(0), 39u);  // "th" by the merge
  EXPECT_NE(response.token_ids(response.token_ids_size() - 1), static_cast<uint32_t>(kHashEnd));

  v1::TokenizeRequest chat;
  v1::ChatMessage* message = chat.mutable_chat()->add_messages();
  message->set_role("user");
  message->set_content("hi");
  grpc::ClientContext chat_context;
  ASSERT_TRUE(stub_->Tokenize(&chat_context, chat, &response).ok());
  EXPECT_EQ(response.prompt(), "<|im_start|>user hi<|im_end|><|im_start|>assistant ");
  EXPECT_EQ(response.token_ids(0), static_cast<uint32_t>(kHashStart));

  v1::DetokenizeRequest back;
  *back.mutable_token_ids() = response.token_ids();
  v1::DetokenizeResponse text;
  grpc::ClientContext back_context;
  ASSERT_TRUE(stub_->Detokenize(&back_context, back, &text).ok());
  EXPECT_EQ(text.text(), "<|im_start|>user hi<|im_end|><|im_start|>assistant ");
  back.set_skip_special(true);
  grpc::ClientContext skip_context;
  ASSERT_TRUE(stub_->Detokenize(&skip_context, back, &text).ok());
  EXPECT_EQ(text.text(), "user hiassistant ");

  back.add_token_ids(64);
  grpc::ClientContext bad_context;
  EXPECT_EQ(stub_->Detokenize(&bad_context, back, &text).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  grpc::ClientContext empty_context;
  EXPECT_EQ(stub_->Tokenize(&empty_context, {}, &response).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(ServerTest, SaysWhatItServes) {
  flags_.served_model_name = "mine";
  flags_.kv_cache_dtype = "float32";
  StartReadyServer();
  grpc::ClientContext context;
  v1::GetModelResponse model;
  ASSERT_TRUE(stub_->GetModel(&context, {}, &model).ok());
  EXPECT_EQ(model.name(), "mine");
  EXPECT_EQ(model.family(), "hash");
  EXPECT_EQ(model.weights_digest(), "digest-of-hash");
  EXPECT_EQ(model.vocab_size(), 64u);
  EXPECT_EQ(model.max_model_len(), 256u);
  EXPECT_EQ(model.eos_token_ids(0), static_cast<uint32_t>(kHashEnd));
  EXPECT_TRUE(model.has_chat_template());
  EXPECT_EQ(model.dtype(), "fake/hash");
  EXPECT_EQ(model.kv_cache_dtype(), "float32");
  EXPECT_EQ(model.block_size(), 8u);
}

}  // namespace
}  // namespace octavo
