#include "scheduler/text/chat_template.h"

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "scheduler/text/jinja_interpreter.h"
#include "scheduler/text/jinja_json.h"
#include "scheduler/text/jinja_parser.h"
#include "scheduler/text/utf8.h"

namespace octavo {
namespace {

using jinja::Budget;
using jinja::Dict;
using jinja::Sequence;
using jinja::Value;

constexpr int64_t kMaxTextBytes = int64_t{1} << 31;  // offsets into a text have 32 bits

// The roles that templates know. As plain text they tokenise as the template's author meant.
bool IsKnownRole(const Value& role) {
  if (!role.IsString()) return false;
  const absl::string_view name = role.text().view();
  return name == "system" || name == "user" || name == "assistant" || name == "tool";
}

// messages with the marks of known roles taken off.
Value TrustKnownRoles(const Value& messages, Budget& budget) {
  const Sequence* list = messages.sequence();
  if (list == nullptr) return messages;
  std::vector<Value> trusted = list->items;
  for (Value& message : trusted) {
    if (!message.IsDict()) continue;
    const Value* role = message.dict().Find("role");
    if (role == nullptr || !IsKnownRole(*role)) continue;
    Dict copy = message.dict();
    copy.Set(Value::String("role"), Value(jinja::Text(role->text().view(), false)));
    message = MakeDict(budget, std::move(copy));
  }
  return MakeSequence(budget, Sequence::Kind::kList, std::move(trusted));
}

absl::StatusOr<Value> MakeContext(const ChatTemplate::Input& input, Budget& budget) {
  if (!input.context.is_object()) {
    return absl::InvalidArgumentError("the context of a chat template is not a JSON object");
  }
  OCTAVO_ASSIGN_OR_RETURN(const Value context, jinja::FromJson(input.context, budget));
  Dict dict = context.dict();
  if (const Value* messages = dict.Find("messages")) {
    dict.Set(Value::String("messages"), TrustKnownRoles(*messages, budget));
  }
  for (const auto& [name, token] : input.special_tokens) {
    if (FindInvalidUtf8(token).has_value()) {
      return absl::InvalidArgumentError(absl::StrCat(name, " is not UTF-8"));
    }
    dict.Set(Value::String(name), Value::String(token));
  }
  return MakeDict(budget, std::move(dict));
}

}  // namespace

absl::StatusOr<ChatTemplate> ChatTemplate::Parse(absl::string_view source) {
  if (source.size() > kMaxTemplateBytes) {
    return absl::InvalidArgumentError(absl::StrCat("chat template of ", source.size(),
                                                   " bytes, the limit is ", kMaxTemplateBytes));
  }
  if (const auto bad = FindInvalidUtf8(source)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the chat template is not UTF-8 at byte ", *bad));
  }
  OCTAVO_ASSIGN_OR_RETURN(jinja::Template parsed, jinja::Parse(source));
  return ChatTemplate(std::make_shared<const jinja::Template>(std::move(parsed)));
}

absl::StatusOr<std::vector<ChatTemplate::Piece>> ChatTemplate::Render(const Input& input,
                                                                      const RenderLimits& limits,
                                                                      absl::Time now) const {
  RenderLimits bounded = limits;
  bounded.max_memory_bytes = std::clamp<int64_t>(limits.max_memory_bytes, 0, kMaxTextBytes);
  bounded.max_output_bytes = std::clamp<int64_t>(limits.max_output_bytes, 0, kMaxTextBytes);
  Budget budget(bounded);
  OCTAVO_ASSIGN_OR_RETURN(const Value context, MakeContext(input, budget));
  OCTAVO_RETURN_IF_ERROR(budget.status());
  jinja::Interpreter interpreter(*parsed_, context, jinja::Runtime{budget, now, input.time_zone});
  OCTAVO_ASSIGN_OR_RETURN(const jinja::Text text, interpreter.Render());
  std::vector<Piece> pieces;
  text.ForEachRun([&](absl::string_view bytes, bool marked) {
    pieces.push_back({std::string(bytes), marked});
  });
  return pieces;
}

std::string ChatTemplate::Text(absl::Span<const Piece> pieces) {
  std::string text;
  for (const Piece& piece : pieces) text += piece.text;
  return text;
}

}  // namespace octavo
