// What the services need to know of the model: its text side and its limits. No weights.
#ifndef OCTAVO_SCHEDULER_TRANSPORT_SERVED_MODEL_H_
#define OCTAVO_SCHEDULER_TRANSPORT_SERVED_MODEL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/checkpoint/checkpoint.h"
#include "common/checkpoint/model_config.h"
#include "octavo/v1/generation.pb.h"
#include "scheduler/text/chat_template.h"
#include "scheduler/text/tokenizer.h"

namespace octavo {

// A prompt as text and as tokens.
struct TokenizedPrompt {
  std::vector<TokenId> tokens;
  std::string text;  // the rendered template, for chats; else empty
};

// Immutable after construction; used by any thread.
struct ServedModel {
  std::string name;    // --served-model-name
  std::string digest;  // of the weights
  ModelConfig config;
  int32_t max_model_len = 0;  // tokens: prompt plus generated
  int32_t max_choices = 1;    // of one request: the sequences of one step
  std::unique_ptr<const Tokenizer> tokenizer;
  std::optional<ChatTemplate> chat_template;
  bool has_texts = true;  // false: no token of the vocabulary has one (--load-format dummy)
  size_t longest_token_bytes = 1;

  // INVALID_ARGUMENT with a BadRequest on `field` when the vocabulary has no texts.
  absl::Status CheckHasTexts(const std::string& field) const;
  // Both INVALID_ARGUMENT with a BadRequest on `field`. A text that must give more than
  // max_model_len tokens is refused before it is tokenised.
  absl::StatusOr<TokenizedPrompt> TokenizeText(const std::string& field, const std::string& text,
                                               bool parse_special) const;
  // Text of messages never becomes a special token; the template's own text does.
  absl::StatusOr<TokenizedPrompt> TokenizeChat(const std::string& field,
                                               const v1::Chat& chat) const;
};

// Fills everything but name and the limits. `origin` names the checkpoint in errors and logs; a
// template that does not parse is logged and left out, since text and token prompts work without.
absl::StatusOr<ServedModel> MakeServedModel(const std::string& origin, const ModelConfig& config,
                                            const TokenizerSpec& spec, const std::string& digest);

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_TRANSPORT_SERVED_MODEL_H_
