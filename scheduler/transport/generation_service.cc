#include "scheduler/transport/generation_service.h"

#include <algorithm>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/program/program.h"
#include "common/rpc/error_details.h"
#include "common/rpc/grpc_status.h"
#include "common/status_macros.h"
#include "scheduler/transport/engine_errors.h"
#include "scheduler/transport/served_fields.h"

namespace octavo {
namespace {

constexpr size_t kMaxQueuedTasks = 4096;

int TaskThreads() {
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()) / 2, 1, 8);
}

absl::Status Tokenize(const ServedModel& model, const v1::TokenizeRequest& request,
                      v1::TokenizeResponse* response) {
  OCTAVO_RETURN_IF_ERROR(CheckServed(request));
  TokenizedPrompt prompt;
  switch (request.input_case()) {
    case v1::TokenizeRequest::kText: {
      OCTAVO_RETURN_IF_ERROR(model.CheckHasTexts("text"));
      // What a text is, not what a prompt would be: nothing is put in front, any length will do.
      absl::StatusOr<std::vector<TokenId>> tokens =
          model.tokenizer->Encode(request.text(), request.parse_special());
      if (!tokens.ok()) return InvalidField("text", tokens.status().message());
      prompt.tokens = *std::move(tokens);
      break;
    }
    case v1::TokenizeRequest::kChat: {
      OCTAVO_ASSIGN_OR_RETURN(prompt, model.TokenizeChat("chat", request.chat()));
      break;
    }
    case v1::TokenizeRequest::INPUT_NOT_SET:
      return InvalidField("input", "is missing; set text or chat");
  }
  response->mutable_token_ids()->Add(prompt.tokens.begin(), prompt.tokens.end());
  response->set_prompt(std::move(prompt.text));
  return absl::OkStatus();
}

absl::Status Detokenize(const ServedModel& model, const v1::DetokenizeRequest& request,
                        v1::DetokenizeResponse* response) {
  OCTAVO_RETURN_IF_ERROR(model.CheckHasTexts("token_ids"));
  std::vector<TokenId> ids;
  ids.reserve(request.token_ids_size());
  for (int i = 0; i < request.token_ids_size(); ++i) {
    if (request.token_ids(i) >= static_cast<uint32_t>(model.config.vocab_size))
      return InvalidField(
          absl::StrCat("token_ids[", i, "]"),
          absl::StrCat("is ", request.token_ids(i), "; it must be below the vocabulary size ",
                       model.config.vocab_size));
    ids.push_back(static_cast<TokenId>(request.token_ids(i)));
  }
  response->set_text(model.tokenizer->Decode(ids, request.skip_special()));
  return absl::OkStatus();
}

}  // namespace

GenerationService::GenerationService(EngineLoop* engine, const ServedModel* model)
    : engine_(engine), model_(model), tasks_(TaskThreads(), kMaxQueuedTasks) {}

grpc::ServerWriteReactor<v1::GenerateResponse>* GenerationService::Generate(
    grpc::CallbackServerContext* context, const v1::GenerateRequest* request) {
  return GenerateReactor::Start(
      {.engine = engine_, .model = model_, .registry = &registry_, .tasks = &tasks_}, context,
      request);
}

grpc::ServerUnaryReactor* GenerationService::RunTask(grpc::CallbackServerContext* context,
                                                     std::function<absl::Status()> work) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const bool accepted = tasks_.TryRun([context, reactor, work = std::move(work)] {
    reactor->Finish(FinishStatus(work(), context));
  });
  if (!accepted)
    reactor->Finish(
        FinishStatus(WithAdvice(absl::ResourceExhaustedError("too many texts wait for a thread"),
                                engine_->snapshot()),
                     context));
  return reactor;
}

grpc::ServerUnaryReactor* GenerationService::Abort(grpc::CallbackServerContext* context,
                                                   const v1::AbortRequest* request,
                                                   v1::AbortResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (request->request_id().empty()) {
    reactor->Finish(FinishStatus(InvalidField("request_id", "is empty"), context));
    return reactor;
  }
  response->set_found(registry_.Abort(request->request_id()));
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerUnaryReactor* GenerationService::Tokenize(grpc::CallbackServerContext* context,
                                                      const v1::TokenizeRequest* request,
                                                      v1::TokenizeResponse* response) {
  return RunTask(
      context, [this, request, response] { return octavo::Tokenize(*model_, *request, response); });
}

grpc::ServerUnaryReactor* GenerationService::Detokenize(grpc::CallbackServerContext* context,
                                                        const v1::DetokenizeRequest* request,
                                                        v1::DetokenizeResponse* response) {
  return RunTask(context, [this, request, response] {
    return octavo::Detokenize(*model_, *request, response);
  });
}

grpc::ServerUnaryReactor* GenerationService::GetModel(grpc::CallbackServerContext* context,
                                                      const v1::GetModelRequest*,
                                                      v1::GetModelResponse* response) {
  const EngineSnapshot snapshot = engine_->snapshot();
  response->set_name(model_->name);
  response->set_family(model_->config.family);
  response->set_version(Version());
  response->set_weights_digest(model_->digest);
  response->set_vocab_size(static_cast<uint32_t>(model_->config.vocab_size));
  response->set_max_model_len(static_cast<uint32_t>(model_->max_model_len));
  for (const TokenId id : model_->tokenizer->eos_ids())
    response->add_eos_token_ids(static_cast<uint32_t>(id));
  response->set_has_chat_template(model_->chat_template.has_value());
  if (!snapshot.workers.empty()) response->set_dtype(snapshot.workers.front().numeric_path);
  response->set_kv_cache_dtype(std::string(Info(engine_->options().group.config.kv_dtype).name));
  response->set_block_size(static_cast<uint32_t>(engine_->options().scheduler.block_size));
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace octavo
