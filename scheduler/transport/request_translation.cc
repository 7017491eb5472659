#include "scheduler/transport/request_translation.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/rpc/error_details.h"
#include "common/status_macros.h"
#include "scheduler/transport/beam_translation.h"
#include "scheduler/transport/sampling_translation.h"

namespace octavo {
namespace {

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
      return FieldOutOfRange(absl::StrCat("token_ids.ids[", i, "]"), absl::StrCat(id),
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

absl::StatusOr<Request> TranslateRequest(const v1::GenerateRequest& request,
                                         const ServedModel& model, uint64_t random_seed) {
  if (request.request_id().size() > kMaxRequestIdBytes)
    return FieldOutOfRange("request_id", absl::StrCat(request.request_id().size(), " bytes long"),
                           absl::StrCat("at most ", kMaxRequestIdBytes));
  if (!request.model().empty() && request.model() != model.name)
    return WithResource(
        absl::NotFoundError(absl::StrCat("model \"", request.model(), "\" is not served here; \"",
                                         model.name, "\" is")),
        {"model", request.model()});
  OCTAVO_RETURN_IF_ERROR(CheckChoices(request.sampling(), model.max_choices));
  if (request.cache_salt().size() > kMaxCacheSaltBytes)
    return FieldOutOfRange("cache_salt", absl::StrCat(request.cache_salt().size(), " bytes long"),
                           absl::StrCat("at most ", kMaxCacheSaltBytes));
  if (request.has_max_tokens() && request.max_tokens() == 0)
    return FieldOutOfRange("max_tokens", "0", "at least 1");

  Request to;
  if (request.sampling().has_prompt_logprobs()) {
    const uint32_t wanted = request.sampling().prompt_logprobs();
    if (wanted > static_cast<uint32_t>(kMaxTopLogprobs))
      return FieldOutOfRange("sampling.prompt_logprobs", absl::StrCat(wanted),
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
