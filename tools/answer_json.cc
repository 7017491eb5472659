#include "tools/answer_json.h"

namespace octavo::tools {
namespace {

nlohmann::json LogprobJson(const v1::TokenLogprob& logprob) {
  nlohmann::json top = nlohmann::json::array();
  for (const v1::TopLogprob& other : logprob.top())
    top.push_back({{"token_id", other.token_id()}, {"logprob", other.logprob()}});
  return {
      {"token_id", logprob.token_id()}, {"logprob", logprob.logprob()}, {"top", std::move(top)}};
}

}  // namespace

void Answer::Add(const v1::GenerateResponse& response) {
  Choice& choice = choices_[response.index()];
  choice.token_ids.insert(choice.token_ids.end(), response.token_ids().begin(),
                          response.token_ids().end());
  choice.text += response.text();
  for (const v1::TokenLogprob& logprob : response.logprobs())
    choice.logprobs.push_back(LogprobJson(logprob));
  for (const v1::TokenLogprob& logprob : response.prompt_logprobs())
    prompt_logprobs_.push_back(LogprobJson(logprob));
  if (response.finish_reason() != v1::FINISH_REASON_UNSPECIFIED)
    choice.finish_reason = response.finish_reason();
  if (response.has_score()) choice.score = response.score();
  if (response.has_usage()) usage_ = response.usage();
}

nlohmann::json Answer::ToJson() const {
  nlohmann::json outputs = nlohmann::json::array();
  for (const auto& [index, choice] : choices_) {
    nlohmann::json output = {{"index", index},
                             {"token_ids", choice.token_ids},
                             {"text", choice.text},
                             {"finish_reason", FinishReasonName(choice.finish_reason)}};
    if (!choice.logprobs.empty()) output["logprobs"] = choice.logprobs;
    if (choice.score.has_value()) output["score"] = *choice.score;
    outputs.push_back(std::move(output));
  }
  nlohmann::json json = {{"outputs", std::move(outputs)},
                         {"prompt_tokens", usage_.prompt_tokens()},
                         {"cached_tokens", usage_.cached_tokens()},
                         {"preemptions", usage_.preemptions()},
                         {"seed", usage_.seed()}};
  if (!prompt_logprobs_.empty()) json["prompt_logprobs"] = prompt_logprobs_;
  return json;
}

std::map<uint32_t, std::string> Answer::Texts() const {
  std::map<uint32_t, std::string> texts;
  for (const auto& [index, choice] : choices_) texts[index] = choice.text;
  return texts;
}

uint32_t Answer::generated_tokens() const {
  size_t tokens = 0;
  for (const auto& [index, choice] : choices_) tokens += choice.token_ids.size();
  return static_cast<uint32_t>(tokens);
}

std::string FinishReasonName(v1::FinishReason reason) {
  switch (reason) {
    case v1::FINISH_REASON_STOP:
      return "stop";
    case v1::FINISH_REASON_LENGTH:
      return "length";
    case v1::FINISH_REASON_ABORT:
      return "abort";
    default:
      return "unspecified";
  }
}

std::string Dump(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace octavo::tools
