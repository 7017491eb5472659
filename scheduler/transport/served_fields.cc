#include "scheduler/transport/served_fields.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/rpc/error_details.h"
#include "google/protobuf/unknown_field_set.h"

namespace octavo {
namespace {

// Collects what is asked for and not served.
class Unserved {
 public:
  void NoteIf(bool asked, const std::string& field, const std::string& value) {
    if (asked) fields_.push_back({field, absl::StrCat("is ", value)});
  }

  void NoteUnknown(const google::protobuf::Message& message, const std::string& where) {
    const auto& unknown = message.GetReflection()->GetUnknownFields(message);
    if (unknown.empty()) return;
    fields_.push_back({absl::StrCat(where, "field number ", unknown.field(0).number()),
                       "this version does not know it"});
  }

  size_t size() const { return fields_.size(); }
  absl::Status status() const {
    return fields_.empty() ? absl::OkStatus() : UnservedFields(fields_);
  }

 private:
  std::vector<FieldViolation> fields_;
};

void NoteSampling(const v1::SamplingParams& sampling, Unserved* unserved) {
  const auto note_if = [unserved](bool asked, const char* field, const auto&... value) {
    unserved->NoteIf(asked, absl::StrCat("sampling.", field), absl::StrCat(value...));
  };
  note_if(sampling.stop_size() > 0, "stop", sampling.stop_size(), " texts");
  note_if(sampling.stop_token_ids_size() > 0, "stop_token_ids", sampling.stop_token_ids_size(),
          " ids");
  note_if(sampling.has_repetition_penalty() && sampling.repetition_penalty() != 1,
          "repetition_penalty", sampling.repetition_penalty());
  note_if(sampling.frequency_penalty() != 0, "frequency_penalty", sampling.frequency_penalty());
  note_if(sampling.presence_penalty() != 0, "presence_penalty", sampling.presence_penalty());
  note_if(sampling.logit_bias_size() > 0, "logit_bias", sampling.logit_bias_size(), " entries");
  note_if(sampling.min_tokens() > 0, "min_tokens", sampling.min_tokens());
  note_if(sampling.has_typical_p() && sampling.typical_p() != 1, "typical_p", sampling.typical_p());
  note_if(sampling.allowed_token_ids_size() > 0, "allowed_token_ids",
          sampling.allowed_token_ids_size(), " ids");
  note_if(sampling.banned_token_ids_size() > 0, "banned_token_ids",
          sampling.banned_token_ids_size(), " ids");
  note_if(sampling.include_stop(), "include_stop", "true");
}

void NoteFormat(const v1::OutputFormat& format, Unserved* unserved) {
  const bool asked = format.format_case() != v1::OutputFormat::FORMAT_NOT_SET &&
                     !(format.has_json_object() && !format.json_object());
  unserved->NoteIf(asked, "output_format", "set");
  unserved->NoteUnknown(format, "output_format ");
}

void NoteChat(const v1::Chat& chat, Unserved* unserved) {
  unserved->NoteIf(chat.tools_size() > 0, "chat.tools", absl::StrCat(chat.tools_size(), " tools"));
  unserved->NoteIf(!chat.template_arguments().empty(), "chat.template_arguments", "set");
  const bool asks_for_calls = chat.tool_format() != v1::TOOL_FORMAT_UNSPECIFIED &&
                              chat.tool_format() != v1::TOOL_FORMAT_NONE;
  unserved->NoteIf(asks_for_calls, "chat.tool_format", absl::StrCat(chat.tool_format()));
  unserved->NoteUnknown(chat, "chat ");
  const size_t before = unserved->size();
  // The first such message says enough: there may be thousands.
  for (int i = 0; i < chat.messages_size() && unserved->size() == before; ++i) {
    const v1::ChatMessage& message = chat.messages(i);
    const std::string path = absl::StrCat("chat.messages[", i, "]");
    unserved->NoteIf(message.tool_calls_size() > 0, absl::StrCat(path, ".tool_calls"),
                     absl::StrCat(message.tool_calls_size(), " calls"));
    unserved->NoteIf(!message.tool_call_id().empty(), absl::StrCat(path, ".tool_call_id"), "set");
    unserved->NoteIf(!message.name().empty(), absl::StrCat(path, ".name"), "set");
    unserved->NoteUnknown(message, "chat.messages ");
  }
}

}  // namespace

absl::Status CheckServed(const v1::GenerateRequest& request) {
  Unserved unserved;
  NoteSampling(request.sampling(), &unserved);
  NoteFormat(request.output_format(), &unserved);
  unserved.NoteIf(request.stream_interval() > 1, "stream_interval",
                  absl::StrCat(request.stream_interval()));
  unserved.NoteIf(request.has_skip_special() && !request.skip_special(), "skip_special", "false");
  unserved.NoteUnknown(request, "");
  unserved.NoteUnknown(request.sampling(), "sampling ");
  unserved.NoteUnknown(request.beam_search(), "beam_search ");
  NoteChat(request.chat(), &unserved);
  return unserved.status();
}

absl::Status CheckServed(const v1::TokenizeRequest& request) {
  Unserved unserved;
  unserved.NoteUnknown(request, "");
  NoteChat(request.chat(), &unserved);
  return unserved.status();
}

}  // namespace octavo
