#include "tests/scheduler/transport/server_fixture.h"

#include <utility>

#include "common/rpc/grpc_status.h"
#include "tests/fakes/fake_model.h"
#include "tests/scheduler/transport/hash_model.h"

namespace octavo {

ServerTest::ServerTest() {
  worker_->description = FakeDescription();
  flags_.port = 0;
  flags_.metrics_port = 0;
  flags_.block_size = 8;
  flags_.max_model_len = 256;
  flags_.max_num_seqs = 64;
  flags_.max_num_batched_tokens = 128;
}

ServerTest::~ServerTest() {
  if (server_ != nullptr) server_->Stop();
}

void ServerTest::StartServer() {
  std::vector<std::unique_ptr<Executor>> executors;
  executors.push_back(std::make_unique<FakeExecutor>(worker_));
  auto server = SchedulerServer::Start(flags_, MakeHashModel(), std::move(executors));
  ASSERT_TRUE(server.ok()) << server.status();
  server_ = *std::move(server);
  const auto channel = grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials());
  stub_ = v1::Generation::NewStub(channel);
  admin_ = v1::Admin::NewStub(channel);
}

void ServerTest::StartReadyServer() {
  StartServer();
  ASSERT_TRUE(server_->WaitUntilReady(absl::Minutes(1)).ok());
}

v1::GenerateRequest ServerTest::TextRequest(const std::string& text, uint32_t max_tokens) {
  v1::GenerateRequest request;
  request.set_text(text);
  request.set_max_tokens(max_tokens);
  return request;
}

v1::GenerateRequest ServerTest::IdRequest(const std::vector<TokenId>& ids, uint32_t max_tokens) {
  v1::GenerateRequest request;
  request.mutable_token_ids()->mutable_ids()->Add(ids.begin(), ids.end());
  request.set_max_tokens(max_tokens);
  request.set_ignore_eos(true);
  return request;
}

void ServerTest::ReadAll(grpc::ClientReader<v1::GenerateResponse>* reader, Answer* answer) {
  v1::GenerateResponse message;
  while (reader->Read(&message)) {
    EXPECT_EQ(answer->finish, v1::FINISH_REASON_UNSPECIFIED) << "a message after the last";
    answer->request_id = message.request_id();
    answer->tokens.insert(answer->tokens.end(), message.token_ids().begin(),
                          message.token_ids().end());
    answer->text += message.text();
    for (const auto& logprob : message.logprobs()) answer->logprobs.push_back(logprob);
    answer->finish = message.finish_reason();
    answer->usage = message.usage();
  }
  answer->status = FromGrpcStatus(reader->Finish());
}

Answer ServerTest::Generate(const v1::GenerateRequest& request, absl::Duration deadline) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + deadline));
  Answer answer;
  ReadAll(stub_->Generate(&context, request).get(), &answer);
  for (const auto& [key, value] : context.GetServerTrailingMetadata())
    answer.trailers.emplace(std::string(key.data(), key.size()),
                            std::string(value.data(), value.size()));
  return answer;
}

std::vector<TokenId> ServerTest::Expected(const v1::GenerateRequest& request, uint64_t seed) const {
  static const ServedModel* const model = new ServedModel(MakeHashModel());
  Request core;
  if (request.has_token_ids())
    core.prompt.assign(request.token_ids().ids().begin(), request.token_ids().ids().end());
  else
    core.prompt = *model->tokenizer->Encode(request.text(), request.parse_special());
  core.max_tokens = static_cast<int32_t>(request.max_tokens());
  core.ignore_eos = request.ignore_eos();
  core.eos_ids = {kHashEnd};
  core.sampling.seed = seed;
  return Evaluate(core, worker_->description.vocab_size).tokens;
}

v1::GetStateResponse ServerTest::State() {
  grpc::ClientContext context;
  v1::GetStateResponse response;
  const grpc::Status status = admin_->GetState(&context, {}, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response;
}

void ServerTest::ExpectAllFree() {
  v1::GetStateResponse state;
  EXPECT_TRUE(Eventually([&] {
    state = State();
    return state.blocks().active() == 0 && state.running() == 0 && state.waiting() == 0 &&
           state.blocks().free() + state.blocks().cached() == state.blocks().total();
  })) << state.DebugString();
}

}  // namespace octavo
