#include "tests/scheduler/text/chat_template_fuzz.h"

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "common/check.h"
#include "scheduler/text/chat_template.h"
#include "scheduler/text/utf8.h"

namespace octavo {
namespace {

nlohmann::ordered_json FuzzContext() {
  return nlohmann::ordered_json::parse(R"({
      "messages": [{"role": "system", "content": " s\u00e9 "}, {"role": "user", "content": "u,v\n"},
                   {"role": "odd", "content": [{"type": "text", "text": "t"}]}],
      "tools": [{"name": "f", "items": [1, 2.5, null, true], "d": {}}],
      "add_generation_prompt": true, "s": "text", "n": 3, "f": 1.5, "ints": [3, 1, 2], "d": {"a": 1}
    })");
}

}  // namespace

void FuzzChatTemplate(absl::string_view source) {
  const absl::StatusOr<ChatTemplate> chat = ChatTemplate::Parse(source);
  if (!chat.ok()) return;
  static const ChatTemplate::Input& input = *[] {
    auto* made = new ChatTemplate::Input();
    made->context = FuzzContext();
    made->special_tokens = {{"bos_token", "<s>"}};
    return made;
  }();
  RenderLimits limits;
  limits.max_steps = 200'000;
  limits.max_memory_bytes = 4 << 20;
  limits.max_output_bytes = 1 << 20;
  const auto pieces = chat->Render(input, limits, absl::FromUnixSeconds(1'700'000'000));
  if (!pieces.ok()) {
    OCTAVO_CHECK(!pieces.status().message().empty());
    return;
  }
  bool last = false;
  for (size_t i = 0; i < pieces->size(); ++i) {
    const ChatTemplate::Piece& piece = (*pieces)[i];
    OCTAVO_CHECK(!piece.text.empty() && (i == 0 || piece.user_content != last));
    OCTAVO_CHECK(!FindInvalidUtf8(piece.text).has_value());
    last = piece.user_content;
  }
}

}  // namespace octavo

#ifdef OCTAVO_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  octavo::FuzzChatTemplate(absl::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
#endif
