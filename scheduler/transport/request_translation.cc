#include "scheduler/transport/request_translation.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/rpc/error_details.h"
#include "common/status_macros.h"
#include "google/protobuf/unknown_field_set.h"
#include "scheduler/transport/beam_translation.h"

namespace octavo {
namespace {

void NoteUnknown(const google::protobuf::Message& message, const std::string& where,
                 std::vector<FieldViolation>* unserved) {
  const auto& unknown = message.GetReflection()->GetUnknownFields(message);
  if (unknown.empty()) return;
  unserved->push_back({absl::StrCat(where, "field number ", unknown.field(0).number()),
                       "this version does not know it"});
}

absl::Status OutOfRange(const std::string& field, const std::string& value,
                        const std::string& limit) {
  return InvalidField(field, absl::StrCat("is ", value, "; it must be ", limit));
}

absl::Status CheckUnit(const std::string& field, float value, bool zero_too) {
  if (std::isfinite(value) && value <= 1 && (value > 0 || (zero_too && value == 0)))
    return absl::OkStatus();
  return OutOfRange(field, absl::StrCat(value), zero_too ? "in [0, 1]" : "in (0, 1]");
}

absl::Status CheckChoices(const v1::SamplingParams& sampling, int32_t max_choices) {
  const uint32_t most = static_cast<uint32_t>(max_choices);
  const uint32_t n = sampling.has_n() ? sampling.n() : 1;
  if (n < 1 || n > most)
    return OutOfRange("sampling.n", absl::StrCat(n), absl::StrCat("in [1, ", most, "]"));
  if (sampling.has_best_of() && (sampling.best_of() < n || sampling.best_of() > most))
    return OutOfRange("sampling.best_of", absl::StrCat(sampling.best_of()),
                      absl::StrCat("in [", n, ", ", most, "], at least n"));
  return absl::OkStatus();
}

absl::StatusOr<SamplingParams> TranslateSampling(const v1::SamplingParams& from,
                                                 uint64_t random_seed) {
  SamplingParams to;
  if (from.has_temperature()) {
    if (!std::isfinite(from.temperature()) || from.temperature() < 0)
      return OutOfRange("sampling.temperature", absl::StrCat(from.temperature()),
                        "a finite number >= 0");
    to.temperature = from.temperature();
  }
  if (from.top_k() > static_cast<uint32_t>(INT32_MAX))
    return OutOfRange("sampling.top_k", absl::StrCat(from.top_k()), "at most 2147483647");
  to.top_k = static_cast<int32_t>(from.top_k());
  if (from.has_top_p()) {
    OCTAVO_RETURN_IF_ERROR(CheckUnit("sampling.top_p", from.top_p(), /*zero_too=*/false));
    to.top_p = from.top_p();
  }
  OCTAVO_RETURN_IF_ERROR(CheckUnit("sampling.min_p", from.min_p(), /*zero_too=*/true));
  to.min_p = from.min_p();
  to.seed = from.has_seed() ? from.seed() : random_seed;
  if (from.has_logprobs()) {
    if (from.logprobs() > static_cast<uint32_t>(kMaxTopLogprobs))
      return OutOfRange("sampling.logprobs", absl::StrCat(from.logprobs()),
                        absl::StrCat("at most ", kMaxTopLogprobs));
    to.num_logprobs = static_cast<int32_t>(from.logprobs());
  }
  return to;
}

absl::StatusOr<std::vector<TokenId>> TranslatePrompt(const v1::GenerateRequest& request,
                                                     const ServedModel& model) {
  switch (request.input_case()) {
    case v1::GenerateRequest::kText: {
      OCTAVO_ASSIGN_OR_RETURN(TokenizedPrompt prompt,
                              model.TokenizeText("text", request.text(), request.parse_special()));
      return std::move(prompt.tokens);
    }
    case v1::GenerateRequest::kChat: {
      OCTAVO_ASSIGN_OR_RETURN(TokenizedPrompt prompt, model.TokenizeChat("chat", request.chat()));
      return std::move(prompt.tokens);
    }
    case v1::GenerateRequest::kTokenIds:
      break;
    case v1::GenerateRequest::INPUT_NOT_SET:
      return InvalidField("input", "is missing; set text, token_ids or chat");
  }
  std::vector<TokenId> tokens;
  tokens.reserve(request.token_ids().ids_size());
  for (int i = 0; i < request.token_ids().ids_size(); ++i) {
    const uint32_t id = request.token_ids().ids(i);
    if (id >= static_cast<uint32_t>(model.config.vocab_size))
      return OutOfRange(absl::StrCat("token_ids.ids[", i, "]"), absl::StrCat(id),
                        absl::StrCat("below the vocabulary size ", model.config.vocab_size));
    tokens.push_back(static_cast<TokenId>(id));
  }
  return tokens;
}

std::string InputField(const v1::GenerateRequest& request) {
  switch (request.input_case()) {
    case v1::GenerateRequest::kText:
      return "text";
    case v1::GenerateRequest::kChat:
      return "chat";
    default:
      return "token_ids";
  }
}

}  // namespace

absl::Status CheckServed(const v1::GenerateRequest& request) {
  std::vector<FieldViolation> unserved;
  const v1::SamplingParams& sampling = request.sampling();
  const auto refuse_if = [&unserved](bool asked, const std::string& field, const auto& value) {
    if (asked) unserved.push_back({absl::StrCat("sampling.", field), absl::StrCat("is ", value)});
  };
  refuse_if(sampling.stop_size() > 0, "stop", absl::StrCat(sampling.stop_size(), " texts"));
  refuse_if(sampling.stop_token_ids_size() > 0, "stop_token_ids",
            absl::StrCat(sampling.stop_token_ids_size(), " ids"));
  refuse_if(sampling.has_repetition_penalty() && sampling.repetition_penalty() != 1,
            "repetition_penalty", sampling.repetition_penalty());
  refuse_if(sampling.frequency_penalty() != 0, "frequency_penalty", sampling.frequency_penalty());
  refuse_if(sampling.presence_penalty() != 0, "presence_penalty", sampling.presence_penalty());
  refuse_if(sampling.logit_bias_size() > 0, "logit_bias",
            absl::StrCat(sampling.logit_bias_size(), " entries"));
  refuse_if(sampling.min_tokens() > 0, "min_tokens", sampling.min_tokens());
  refuse_if(sampling.has_typical_p() && sampling.typical_p() != 1, "typical_p",
            sampling.typical_p());
  NoteUnknown(request, "", &unserved);
  NoteUnknown(sampling, "sampling ", &unserved);
  NoteUnknown(request.beam_search(), "beam_search ", &unserved);
  NoteUnknown(request.chat(), "chat ", &unserved);
  for (const v1::ChatMessage& message : request.chat().messages())
    NoteUnknown(message, "chat.messages ", &unserved);
  return unserved.empty() ? absl::OkStatus() : UnservedFields(unserved);
}

absl::StatusOr<Request> TranslateRequest(const v1::GenerateRequest& request,
                                         const ServedModel& model, uint64_t random_seed) {
  if (request.request_id().size() > kMaxRequestIdBytes)
    return OutOfRange("request_id", absl::StrCat(request.request_id().size(), " bytes long"),
                      absl::StrCat("at most ", kMaxRequestIdBytes));
  if (!request.model().empty() && request.model() != model.name)
    return WithResource(
        absl::NotFoundError(absl::StrCat("model \"", request.model(), "\" is not served here; \"",
                                         model.name, "\" is")),
        {"model", request.model()});
  OCTAVO_RETURN_IF_ERROR(CheckChoices(request.sampling(), model.max_choices));
  if (request.cache_salt().size() > kMaxCacheSaltBytes)
    return OutOfRange("cache_salt", absl::StrCat(request.cache_salt().size(), " bytes long"),
                      absl::StrCat("at most ", kMaxCacheSaltBytes));
  if (request.has_max_tokens() && request.max_tokens() == 0)
    return OutOfRange("max_tokens", "0", "at least 1");

  Request to;
  if (request.sampling().has_prompt_logprobs()) {
    const uint32_t wanted = request.sampling().prompt_logprobs();
    if (wanted > static_cast<uint32_t>(kMaxTopLogprobs))
      return OutOfRange("sampling.prompt_logprobs", absl::StrCat(wanted),
                        absl::StrCat("at most ", kMaxTopLogprobs));
    to.prompt_logprobs = static_cast<int32_t>(wanted);
  }
  OCTAVO_ASSIGN_OR_RETURN(to.sampling, TranslateSampling(request.sampling(), random_seed));
  OCTAVO_ASSIGN_OR_RETURN(to.prompt, TranslatePrompt(request, model));
  const int64_t prompt = static_cast<int64_t>(to.prompt.size());
  if (prompt == 0)
    return InvalidField(InputField(request), "gives 0 tokens; a prompt needs at least 1");
  const int64_t room = model.max_model_len - prompt;
  if (room < 1)
    return InvalidField(
        InputField(request),
        absl::StrCat("gives ", prompt, " tokens; the context is ", model.max_model_len,
                     " tokens and one must be left to generate"));
  if (request.has_max_tokens() && request.max_tokens() > room)
    return InvalidField(
        "max_tokens", absl::StrCat("is ", request.max_tokens(), "; the prompt has ", prompt,
                                   " tokens and the context ", model.max_model_len, ", so at most ",
                                   room, " are left"));
  to.max_tokens = request.has_max_tokens()
                      ? static_cast<int32_t>(request.max_tokens())
                      : static_cast<int32_t>(std::min<int64_t>(room, kDefaultMaxTokens));
  to.ignore_eos = request.ignore_eos();
  to.eos_ids = model.tokenizer->eos_ids();
  to.priority = request.priority();
  const AnswerShape shape = ShapeOf(request);
  to.n = shape.generated;
  // The best ones are found by their log-probabilities.
  if (shape.generated > shape.choices)
    to.sampling.num_logprobs = std::max(0, to.sampling.num_logprobs);
  OCTAVO_RETURN_IF_ERROR(TranslateBeams(request, model.max_choices, &to));
  to.cache_salt = request.cache_salt();
  to.prefix_cache = !request.has_prefix_cache() || request.prefix_cache();
  return to;
}

AnswerShape ShapeOf(const v1::GenerateRequest& request) {
  const v1::SamplingParams& sampling = request.sampling();
  AnswerShape shape;
  shape.choices = sampling.has_n() ? static_cast<int32_t>(sampling.n()) : 1;
  shape.generated =
      sampling.has_best_of() ? static_cast<int32_t>(sampling.best_of()) : shape.choices;
  if (request.has_beam_search()) {
    if (!sampling.has_n()) shape.choices = static_cast<int32_t>(request.beam_search().width());
    shape.generated = shape.choices;
    shape.scores = true;
  }
  shape.logprobs = sampling.has_logprobs();
  return shape;
}

}  // namespace octavo
