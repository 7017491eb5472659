// Answers as the JSON objects that `octavo generate --json` and `octavo batch` print.
#ifndef OCTAVO_TOOLS_ANSWER_JSON_H_
#define OCTAVO_TOOLS_ANSWER_JSON_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "octavo/v1/generation.pb.h"

namespace octavo::tools {

// Everything one Generate call sent, gathered per choice.
class Answer {
 public:
  void Add(const v1::GenerateResponse& response);

  // {"outputs": [{"index", "token_ids", "text", "finish_reason", "logprobs", "score"}],
  //  "prompt_tokens", "cached_tokens", "preemptions", "seed", "prompt_logprobs"};
  //  log-probabilities and scores only when the server sent them.
  nlohmann::json ToJson() const;
  std::map<uint32_t, std::string> Texts() const;  // by choice
  uint32_t generated_tokens() const;              // of all choices

 private:
  struct Choice {
    std::vector<uint32_t> token_ids;
    std::string text;
    nlohmann::json logprobs = nlohmann::json::array();
    v1::FinishReason finish_reason = v1::FINISH_REASON_UNSPECIFIED;
    std::optional<double> score;
  };
  std::map<uint32_t, Choice> choices_;
  nlohmann::json prompt_logprobs_ = nlohmann::json::array();
  v1::Usage usage_;
};

// "stop", "length", "abort"
std::string FinishReasonName(v1::FinishReason reason);

// One line, invalid UTF-8 replaced.
std::string Dump(const nlohmann::json& json);

}  // namespace octavo::tools

#endif  // OCTAVO_TOOLS_ANSWER_JSON_H_
