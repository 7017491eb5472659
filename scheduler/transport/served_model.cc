#include "scheduler/transport/served_model.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/log.h"
#include "common/rpc/error_details.h"
#include "common/status_macros.h"

namespace octavo {
namespace {

absl::Status OnField(const std::string& field, const absl::Status& status) {
  return InvalidField(field, status.message());
}

// Every token stands for at most `longest` bytes.
absl::Status CheckLength(const std::string& field, size_t bytes, const ServedModel& model) {
  const size_t least = bytes / model.longest_token_bytes;
  if (least <= static_cast<size_t>(model.max_model_len)) return absl::OkStatus();
  return InvalidField(field,
                      absl::StrCat("has ", bytes, " bytes, which are at least ", least,
                                   " tokens; the context is ", model.max_model_len, " tokens"));
}

}  // namespace

absl::Status ServedModel::CheckHasTexts(const std::string& field) const {
  if (has_texts) return absl::OkStatus();
  return InvalidField(field, absl::StrCat("needs a tokenizer, and model ", name,
                                          " has none: its weights are noise (--load-format "
                                          "dummy); send token_ids, and read token ids"));
}

absl::StatusOr<TokenizedPrompt> ServedModel::TokenizeText(const std::string& field,
                                                          const std::string& text,
                                                          bool parse_special) const {
  OCTAVO_RETURN_IF_ERROR(CheckHasTexts(field));
  OCTAVO_RETURN_IF_ERROR(CheckLength(field, text.size(), *this));
  absl::StatusOr<std::vector<TokenId>> tokens = tokenizer->Encode(text, parse_special);
  if (!tokens.ok()) return OnField(field, tokens.status());
  if (tokenizer->add_bos() && tokenizer->bos_id().has_value())
    tokens->insert(tokens->begin(), *tokenizer->bos_id());
  return TokenizedPrompt{.tokens = *std::move(tokens), .text = {}};
}

absl::StatusOr<TokenizedPrompt> ServedModel::TokenizeChat(const std::string& field,
                                                          const v1::Chat& chat) const {
  OCTAVO_RETURN_IF_ERROR(CheckHasTexts(field));
  const std::string messages_field = absl::StrCat(field, ".messages");
  if (chat.messages().empty()) return InvalidField(messages_field, "is empty");
  size_t bytes = 0;
  ChatTemplate::Input input;
  auto& messages = input.context["messages"] = nlohmann::ordered_json::array();
  for (const v1::ChatMessage& message : chat.messages()) {
    bytes += message.role().size() + message.content().size();
    messages.push_back({{"role", message.role()}, {"content", message.content()}});
  }
  OCTAVO_RETURN_IF_ERROR(CheckLength(messages_field, bytes, *this));
  input.context["add_generation_prompt"] =
      chat.has_add_generation_prompt() ? chat.add_generation_prompt() : true;
  if (tokenizer->bos_id().has_value())
    input.special_tokens.emplace_back("bos_token", tokenizer->TokenBytes(*tokenizer->bos_id()));
  if (!tokenizer->eos_ids().empty())
    input.special_tokens.emplace_back("eos_token",
                                      tokenizer->TokenBytes(tokenizer->eos_ids().front()));

  std::optional<ChatTemplate> replacement;
  if (!chat.template_().empty()) {
    absl::StatusOr<ChatTemplate> parsed = ChatTemplate::Parse(chat.template_());
    if (!parsed.ok()) return OnField(absl::StrCat(field, ".template"), parsed.status());
    replacement = *std::move(parsed);
  } else if (!chat_template.has_value()) {
    return InvalidField(
        field, absl::StrCat("model ", name, " has no chat template; send chat.template or text"));
  }
  const ChatTemplate& used = replacement.has_value() ? *replacement : *chat_template;
  const auto pieces = used.Render(input, {}, absl::Now());
  if (!pieces.ok()) return OnField(messages_field, pieces.status());

  std::vector<TextSegment> segments;
  segments.reserve(pieces->size());
  for (const ChatTemplate::Piece& piece : *pieces)
    segments.push_back({piece.text, /*parse_special=*/!piece.user_content});
  absl::StatusOr<std::vector<TokenId>> tokens = tokenizer->EncodeSegments(segments);
  if (!tokens.ok()) return OnField(messages_field, tokens.status());
  return TokenizedPrompt{.tokens = *std::move(tokens), .text = ChatTemplate::Text(*pieces)};
}

absl::StatusOr<ServedModel> MakeServedModel(const std::string& origin, const ModelConfig& config,
                                            const TokenizerSpec& spec, const std::string& digest) {
  ServedModel model;
  model.digest = digest;
  model.config = config;
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::Create(spec);
  if (!tokenizer.ok())
    return absl::Status(tokenizer.status().code(),
                        absl::StrCat(origin, ": ", tokenizer.status().message()));
  model.tokenizer = *std::move(tokenizer);
  size_t longest = 0;
  for (TokenId id = 0; id < model.tokenizer->vocab_size(); ++id)
    longest = std::max(longest, model.tokenizer->BytesOf(id).size());
  model.has_texts = longest > 0;
  model.longest_token_bytes = std::max(model.longest_token_bytes, longest);
  if (!spec.chat_template.empty()) {
    absl::StatusOr<ChatTemplate> parsed = ChatTemplate::Parse(spec.chat_template);
    if (parsed.ok())
      model.chat_template = *std::move(parsed);
    else
      OCTAVO_LOG(kWarning, origin, ": chats need chat.template, the checkpoint's is unusable: ",
                 parsed.status().message());
  }
  return model;
}

}  // namespace octavo
