// Chat templates: a checkpoint's Jinja template applied to a conversation.
//
// Text of the request must be tokenised with special tokens off, or a user could forge turns by
// writing "<|im_end|>". So a render gives pieces that say where their text came from;
// Tokenizer::EncodeSegments takes them with parse_special = !user_content, and gives the ids of the
// whole text unless the user's text contains a special token.
//
//   OCTAVO_ASSIGN_OR_RETURN(const ChatTemplate chat, ChatTemplate::Parse(spec.chat_template));
//   ChatTemplate::Input input;
//   input.context = {{"messages", ...}, {"add_generation_prompt", true}};
//   input.special_tokens = {{"bos_token", "<|im_start|>"}, {"eos_token", "<|im_end|>"}};
//   OCTAVO_ASSIGN_OR_RETURN(const auto pieces, chat.Render(input, {}, clock.Now()));
//
// The language is what Hugging Face renders with: Jinja 3.1's immutable sandbox, trim_blocks,
// lstrip_blocks, loop controls, its tojson, raise_exception and strftime_now. Not supported:
// template inheritance and includes, recursive loops, str.format, the filters groupby, pprint,
// slice, truncate, urlencode, urlize, wordwrap, xmlattr and their kin; integers past 64 bits and
// complex numbers are errors. Lazy evaluation is eager here, and a block that reads a name of the
// context which the template assigns only further down sees the context's value (Jinja: undefined).
#ifndef OCTAVO_SCHEDULER_TEXT_CHAT_TEMPLATE_H_
#define OCTAVO_SCHEDULER_TEXT_CHAT_TEMPLATE_H_

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "nlohmann/json.hpp"
#include "scheduler/text/jinja_budget.h"

namespace octavo {

namespace jinja {
struct Template;
}

// Immutable; copies share the parsed template, and any number of threads may render at once.
class ChatTemplate {
 public:
  static constexpr size_t kMaxTemplateBytes = 256 * 1024;

  struct Piece {
    std::string text;
    // Text of the request, or derived from it (jinja_text.h says when): no special tokens in here.
    bool user_content = false;
  };

  struct Input {
    // What the template sees, in the request's order of keys: messages, tools, documents,
    // add_generation_prompt, ... Every string in it is user content, keys of objects too. The one
    // exception: messages[i].role when it is system, user, assistant or tool.
    nlohmann::ordered_json context = nlohmann::ordered_json::object();
    // From the checkpoint, trusted: bos_token, eos_token and the like. They win over the context.
    std::vector<std::pair<std::string, std::string>> special_tokens;
    // For strftime_now.
    absl::TimeZone time_zone = absl::UTCTimeZone();
  };

  // INVALID_ARGUMENT "template line N: ..." for a template that Jinja would refuse, or that is not
  // UTF-8 or larger than kMaxTemplateBytes.
  static absl::StatusOr<ChatTemplate> Parse(absl::string_view source);

  // Neighbouring pieces differ in user_content; none is empty. INVALID_ARGUMENT "template line N:
  // ..." for raise_exception and for what Jinja would refuse; RESOURCE_EXHAUSTED for a limit.
  absl::StatusOr<std::vector<Piece>> Render(const Input& input, const RenderLimits& limits,
                                            absl::Time now) const;

  // The whole rendered text.
  static std::string Text(absl::Span<const Piece> pieces);

 private:
  explicit ChatTemplate(std::shared_ptr<const jinja::Template> parsed)
      : parsed_(std::move(parsed)) {}

  std::shared_ptr<const jinja::Template> parsed_;
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_TEXT_CHAT_TEMPLATE_H_
