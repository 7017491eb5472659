#include "tools/batch_line.h"

#include <functional>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace octavo::tools {
namespace {

using Json = nlohmann::json;

absl::Status Wrong(const std::string& field, absl::string_view wanted, const Json& value) {
  std::string shown = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (shown.size() > 80) shown = shown.substr(0, 80) + "...";
  return absl::InvalidArgumentError(absl::StrCat(field, " is ", shown, "; it must be ", wanted));
}

absl::Status ReadUint(const Json& value, const std::string& field, uint64_t limit, uint64_t* out) {
  if (!value.is_number_integer() || value.get<double>() < 0 || value.get<uint64_t>() > limit)
    return Wrong(field, absl::StrCat("an integer in [0, ", limit, "]"), value);
  *out = value.get<uint64_t>();
  return absl::OkStatus();
}

// NaN and infinity have no JSON; "NaN" strings are refused here, out-of-range numbers by the
// server.
absl::Status ReadFloat(const Json& value, const std::string& field, float* out) {
  if (!value.is_number()) return Wrong(field, "a number", value);
  *out = value.get<float>();
  return absl::OkStatus();
}

absl::Status ReadStrings(const Json& value, const std::string& field,
                         const std::function<void(std::string)>& add) {
  if (value.is_string()) {
    add(value.get<std::string>());
    return absl::OkStatus();
  }
  if (!value.is_array()) return Wrong(field, "a string or a list of strings", value);
  for (const Json& item : value) {
    if (!item.is_string()) return Wrong(field, "a string or a list of strings", value);
    add(item.get<std::string>());
  }
  return absl::OkStatus();
}

absl::Status ReadTokens(const Json& value, const std::string& field,
                        const std::function<void(uint32_t)>& add) {
  if (!value.is_array()) return Wrong(field, "a list of token ids", value);
  for (const Json& item : value) {
    uint64_t id = 0;
    if (absl::Status status = ReadUint(item, field, 0xffffffffu, &id); !status.ok()) return status;
    add(static_cast<uint32_t>(id));
  }
  return absl::OkStatus();
}

absl::Status ReadMessages(const Json& value, v1::Chat* chat) {
  if (!value.is_array()) return Wrong("messages", "a list of {role, content}", value);
  for (const Json& item : value) {
    if (!item.is_object() || !item.contains("role") || !item.contains("content") ||
        !item["role"].is_string() || !item["content"].is_string())
      return Wrong("messages", "a list of {role, content} with text values", item);
    v1::ChatMessage* message = chat->add_messages();
    message->set_role(item["role"].get<std::string>());
    message->set_content(item["content"].get<std::string>());
  }
  chat->set_add_generation_prompt(true);
  return absl::OkStatus();
}

using Reader = std::function<absl::Status(const Json&, v1::GenerateRequest*)>;

template <typename Setter>
Reader Uint(const char* field, Setter setter, uint64_t limit = 0xffffffffu) {
  return [=](const Json& value, v1::GenerateRequest* request) {
    uint64_t number = 0;
    absl::Status status = ReadUint(value, field, limit, &number);
    if (status.ok()) setter(request, number);
    return status;
  };
}

template <typename Setter>
Reader Float(const char* field, Setter setter) {
  return [=](const Json& value, v1::GenerateRequest* request) {
    float number = 0;
    absl::Status status = ReadFloat(value, field, &number);
    if (status.ok()) setter(request->mutable_sampling(), number);
    return status;
  };
}

template <typename Setter>
Reader Bool(const char* field, Setter setter) {
  return [=](const Json& value, v1::GenerateRequest* request) {
    if (!value.is_boolean()) return Wrong(field, "true or false", value);
    setter(request, value.get<bool>());
    return absl::OkStatus();
  };
}

template <typename Setter>
Reader String(const char* field, Setter setter) {
  return [=](const Json& value, v1::GenerateRequest* request) {
    if (!value.is_string()) return Wrong(field, "a string", value);
    setter(request, value.get<std::string>());
    return absl::OkStatus();
  };
}

absl::Status ReadEarlyStopping(const Json& value, v1::GenerateRequest* request) {
  v1::BeamSearch* beams = request->mutable_beam_search();
  if (value.is_boolean()) {
    beams->set_early_stopping(value.get<bool>() ? v1::EARLY_STOPPING_TRUE
                                                : v1::EARLY_STOPPING_FALSE);
  } else if (value == "never") {
    beams->set_early_stopping(v1::EARLY_STOPPING_NEVER);
  } else {
    return Wrong("early_stopping", "true, false or \"never\"", value);
  }
  return absl::OkStatus();
}

// Without a beam search its parameters must ask for nothing.
absl::Status CheckBeams(const Json& json, v1::GenerateRequest* request) {
  if (!request->has_beam_search()) return absl::OkStatus();
  if (json.contains("use_beam_search") && json["use_beam_search"] == true) {
    if (request->beam_search().width() > 0) return absl::OkStatus();
    return absl::InvalidArgumentError("use_beam_search is true; it needs a beam_width, in [1, 32]");
  }
  const v1::BeamSearch& beams = request->beam_search();
  const auto refuse = [&json](const char* field) {
    return absl::InvalidArgumentError(absl::StrCat(
        field, " is ", json[field].dump(), "; it is of no use unless use_beam_search is true"));
  };
  if (beams.width() > 1) return refuse("beam_width");
  if (beams.has_length_penalty() && beams.length_penalty() != 1) return refuse("length_penalty");
  if (beams.early_stopping() != v1::EARLY_STOPPING_FALSE) return refuse("early_stopping");
  request->clear_beam_search();
  return absl::OkStatus();
}

const std::map<std::string, Reader>& Readers() {
  using Request = v1::GenerateRequest;
  using Sampling = v1::SamplingParams;
  static const auto* readers = new std::map<std::string, Reader>{
      {"prompt",
       [](const Json& value, Request* request) {
         if (!value.is_string()) return Wrong("prompt", "a string", value);
         request->set_text(value.get<std::string>());
         return absl::OkStatus();
       }},
      {"prompt_token_ids",
       [](const Json& value, Request* request) {
         v1::TokenIds* ids = request->mutable_token_ids();
         return ReadTokens(value, "prompt_token_ids", [ids](uint32_t id) { ids->add_ids(id); });
       }},
      {"messages",
       [](const Json& value, Request* request) {
         return ReadMessages(value, request->mutable_chat());
       }},
      {"max_tokens", Uint("max_tokens", [](Request* r, uint64_t v) { r->set_max_tokens(v); })},
      {"temperature", Float("temperature", [](Sampling* s, float v) { s->set_temperature(v); })},
      {"top_p", Float("top_p", [](Sampling* s, float v) { s->set_top_p(v); })},
      {"top_k", Uint("top_k", [](Request* r, uint64_t v) { r->mutable_sampling()->set_top_k(v); })},
      {"min_p", Float("min_p", [](Sampling* s, float v) { s->set_min_p(v); })},
      {"typical_p", Float("typical_p", [](Sampling* s, float v) { s->set_typical_p(v); })},
      {"n", Uint("n", [](Request* r, uint64_t v) { r->mutable_sampling()->set_n(v); })},
      {"best_of",
       Uint("best_of", [](Request* r, uint64_t v) { r->mutable_sampling()->set_best_of(v); })},
      {"seed", Uint("seed", [](Request* r, uint64_t v) { r->mutable_sampling()->set_seed(v); },
                    UINT64_MAX)},
      {"logprobs",
       Uint("logprobs", [](Request* r, uint64_t v) { r->mutable_sampling()->set_logprobs(v); })},
      {"prompt_logprobs", Uint("prompt_logprobs",
                               [](Request* r, uint64_t v) {
                                 r->mutable_sampling()->set_prompt_logprobs(v);
                               })},
      {"min_tokens", Uint("min_tokens",
                          [](Request* r, uint64_t v) {
                            r->mutable_sampling()->set_min_tokens(v);
                          })},
      {"repetition_penalty",
       Float("repetition_penalty", [](Sampling* s, float v) { s->set_repetition_penalty(v); })},
      {"frequency_penalty",
       Float("frequency_penalty", [](Sampling* s, float v) { s->set_frequency_penalty(v); })},
      {"presence_penalty",
       Float("presence_penalty", [](Sampling* s, float v) { s->set_presence_penalty(v); })},
      {"ignore_eos", Bool("ignore_eos", [](Request* r, bool v) { r->set_ignore_eos(v); })},
      {"parse_special", Bool("parse_special", [](Request* r, bool v) { r->set_parse_special(v); })},
      {"use_beam_search", Bool("use_beam_search",
                               [](Request* r, bool v) {
                                 if (v) r->mutable_beam_search();
                               })},
      {"beam_width", Uint("beam_width",
                          [](Request* r, uint64_t v) { r->mutable_beam_search()->set_width(v); })},
      {"length_penalty",
       [](const Json& value, Request* request) {
         if (!value.is_number()) return Wrong("length_penalty", "a number", value);
         request->mutable_beam_search()->set_length_penalty(value.get<double>());
         return absl::OkStatus();
       }},
      {"early_stopping", ReadEarlyStopping},
      {"priority",
       [](const Json& value, Request* request) {
         if (!value.is_number_integer() || value.get<int64_t>() < INT32_MIN ||
             value.get<int64_t>() > INT32_MAX)
           return Wrong("priority", "a 32-bit integer", value);
         request->set_priority(value.get<int32_t>());
         return absl::OkStatus();
       }},
      {"model", String("model", [](Request* r, std::string v) { r->set_model(std::move(v)); })},
      {"cache_salt",
       String("cache_salt", [](Request* r, std::string v) { r->set_cache_salt(std::move(v)); })},
      {"prefix_cache", Bool("prefix_cache", [](Request* r, bool v) { r->set_prefix_cache(v); })},
      {"stop",
       [](const Json& value, Request* request) {
         return ReadStrings(value, "stop", [request](std::string text) {
           request->mutable_sampling()->add_stop(std::move(text));
         });
       }},
      {"stop_token_ids",
       [](const Json& value, Request* request) {
         return ReadTokens(value, "stop_token_ids", [request](uint32_t id) {
           request->mutable_sampling()->add_stop_token_ids(id);
         });
       }},
  };
  return *readers;
}

// Served by later versions; named here so that a batch is never answered as if they were absent.
const std::set<std::string>& Reserved() {
  static const auto* reserved = new std::set<std::string>{"logit_bias", "response_format"};
  return *reserved;
}

absl::Status ReadFields(const Json& json, v1::GenerateRequest* request) {
  int inputs = 0;
  for (const auto& [field, value] : json.items()) {
    if (field == "id" || value.is_null()) continue;
    if (Reserved().count(field) > 0)
      return absl::UnimplementedError(absl::StrCat(field, " is not served by this version"));
    const auto reader = Readers().find(field);
    if (reader == Readers().end())
      return absl::InvalidArgumentError(absl::StrCat("unknown field ", field));
    if (absl::Status status = reader->second(value, request); !status.ok()) return status;
    inputs += field == "prompt" || field == "prompt_token_ids" || field == "messages";
  }
  if (inputs != 1)
    return absl::InvalidArgumentError(
        absl::StrCat("a line needs one of prompt, prompt_token_ids and messages; it has ", inputs));
  return CheckBeams(json, request);
}

}  // namespace

BatchLine ParseBatchLine(absl::string_view text, int64_t number) {
  BatchLine line;
  line.id = absl::StrCat(number);
  const Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object()) {
    line.error = absl::InvalidArgumentError(absl::StrCat("line ", number, " is not a JSON object"));
    return line;
  }
  if (json.contains("id") && !json["id"].is_null()) {
    if (json["id"].is_string()) {
      line.id = json["id"].get<std::string>();
    } else if (json["id"].is_number_integer()) {
      line.id = json["id"].dump();
    } else {
      line.error = Wrong("id", "a string or an integer", json["id"]);
      return line;
    }
  }
  line.error = ReadFields(json, &line.request);
  return line;
}

}  // namespace octavo::tools
