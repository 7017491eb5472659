#include "scheduler/transport/request_translation.h"

#include <cmath>
#include <functional>
#include <limits>

#include "common/rpc/error_details.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/scheduler/transport/hash_model.h"

namespace octavo {
namespace {

using ::testing::HasSubstr;

v1::GenerateRequest Valid() {
  v1::GenerateRequest request;
  request.set_text("hello");
  return request;
}

struct BadCase {
  const char* field;
  const char* description;
  std::function<void(v1::GenerateRequest&)> breaks;
};

TEST(TranslateRequest, NamesFieldValueAndLimitOfWhatIsWrong) {
  const ServedModel model = MakeHashModel();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  const BadCase cases[] = {
      {"sampling.temperature", "is -1; it must be a finite number >= 0",
       [](auto& r) { r.mutable_sampling()->set_temperature(-1); }},
      {"sampling.temperature", "is nan",
       [=](auto& r) { r.mutable_sampling()->set_temperature(nan); }},
      {"sampling.temperature", "is inf",
       [=](auto& r) { r.mutable_sampling()->set_temperature(infinity); }},
      {"sampling.top_p", "is 0; it must be in (0, 1]",
       [](auto& r) { r.mutable_sampling()->set_top_p(0); }},
      {"sampling.top_p", "is 1.5", [](auto& r) { r.mutable_sampling()->set_top_p(1.5); }},
      {"sampling.top_p", "is nan", [=](auto& r) { r.mutable_sampling()->set_top_p(nan); }},
      {"sampling.min_p", "is -0.5; it must be in [0, 1]",
       [](auto& r) { r.mutable_sampling()->set_min_p(-0.5); }},
      {"sampling.min_p", "is nan", [=](auto& r) { r.mutable_sampling()->set_min_p(nan); }},
      {"sampling.top_k", "is 4294967295",
       [](auto& r) { r.mutable_sampling()->set_top_k(0xffffffffu); }},
      {"sampling.logprobs", "is 21; it must be at most 20",
       [](auto& r) { r.mutable_sampling()->set_logprobs(21); }},
      {"sampling.n", "is 0; it must be in [1, 64]",
       [](auto& r) { r.mutable_sampling()->set_n(0); }},
      {"sampling.n", "is 65; it must be in [1, 64]",
       [](auto& r) { r.mutable_sampling()->set_n(65); }},
      {"sampling.best_of", "is 2; it must be in [3, 64], at least n",
       [](auto& r) {
         r.mutable_sampling()->set_n(3);
         r.mutable_sampling()->set_best_of(2);
       }},
      {"sampling.best_of", "is 65; it must be in [1, 64]",
       [](auto& r) { r.mutable_sampling()->set_best_of(65); }},
      {"cache_salt", "is 257 bytes long; it must be at most 256",
       [](auto& r) { r.set_cache_salt(std::string(257, 's')); }},
      {"max_tokens", "is 0; it must be at least 1", [](auto& r) { r.set_max_tokens(0); }},
      {"max_tokens", "is 252; the prompt has 5 tokens and the context 256, so at most 251",
       [](auto& r) { r.set_max_tokens(252); }},
      {"max_tokens", "is 4294967295", [](auto& r) { r.set_max_tokens(0xffffffffu); }},
      {"input", "is missing", [](auto& r) { r.clear_input(); }},
      {"text", "gives 0 tokens", [](auto& r) { r.set_text(""); }},
      {"text", "gives 256 tokens; the context is 256",
       [](auto& r) { r.set_text(std::string(256, 'a')); }},
      {"text", "are at least", [](auto& r) { r.set_text(std::string(1 << 20, 'a')); }},
      {"text", "UTF-8", [](auto& r) { r.set_text("a\xff"); }},
      {"token_ids", "gives 0 tokens", [](auto& r) { r.mutable_token_ids(); }},
      {"token_ids.ids[1]", "is 64; it must be below the vocabulary size 64",
       [](auto& r) {
         r.mutable_token_ids()->add_ids(1);
         r.mutable_token_ids()->add_ids(64);
       }},
      {"chat.messages", "is empty", [](auto& r) { r.mutable_chat(); }},
      {"chat.template", "template line 1",
       [](auto& r) {
         r.mutable_chat()->add_messages()->set_role("user");
         r.mutable_chat()->set_template_("{% if %}");
       }},
      {"chat.messages", "no system here",
       [](auto& r) {
         r.mutable_chat()->add_messages()->set_role("system");
         r.mutable_chat()->set_template_("{{ raise_exception('no system here') }}");
       }},
      {"request_id", "is 257 bytes long; it must be at most 256",
       [](auto& r) { r.set_request_id(std::string(257, 'x')); }},
  };
  for (const BadCase& bad : cases) {
    v1::GenerateRequest request = Valid();
    bad.breaks(request);
    const absl::Status status = TranslateRequest(request, model, 1).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad.field << " " << status;
    const auto violations = BadRequestOf(status);
    ASSERT_EQ(violations.size(), 1u) << bad.field;
    EXPECT_EQ(violations[0].field, bad.field);
    EXPECT_THAT(violations[0].description, HasSubstr(bad.description)) << bad.field;
    EXPECT_THAT(status.message(), HasSubstr(bad.field));
  }
}

TEST(TranslateRequest, AnotherModelIsNotFound) {
  v1::GenerateRequest request = Valid();
  request.set_model("gpt-5");
  const absl::Status status = TranslateRequest(request, MakeHashModel(), 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ResourceOf(status), (ResourceDetail{"model", "gpt-5"}));
  request.set_model("hash");
  EXPECT_TRUE(TranslateRequest(request, MakeHashModel(), 1).ok());
}

TEST(TranslateRequest, FillsDefaultsAndEverythingThatWasSet) {
  const ServedModel model = MakeHashModel();
  absl::StatusOr<Request> plain = TranslateRequest(Valid(), model, 77);
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(plain->prompt, (std::vector<TokenId>{7, 4, 11, 11, 14}));
  EXPECT_EQ(plain->max_tokens, 251);
  EXPECT_EQ(plain->sampling, (SamplingParams{.seed = 77}));
  EXPECT_EQ(plain->eos_ids, (std::vector<TokenId>{kHashEnd}));

  v1::GenerateRequest request = Valid();
  request.mutable_sampling()->set_temperature(0);
  request.mutable_sampling()->set_top_k(5);
  request.mutable_sampling()->set_top_p(0.5);
  request.mutable_sampling()->set_min_p(0.25);
  request.mutable_sampling()->set_seed(3);
  request.mutable_sampling()->set_logprobs(2);
  request.set_max_tokens(9);
  request.set_ignore_eos(true);
  request.set_priority(-4);
  const absl::StatusOr<Request> full = TranslateRequest(request, model, 77);
  ASSERT_TRUE(full.ok()) << full.status();
  EXPECT_EQ(full->sampling, (SamplingParams{.temperature = 0,
                                            .top_k = 5,
                                            .top_p = 0.5,
                                            .min_p = 0.25,
                                            .seed = 3,
                                            .num_logprobs = 2}));
  EXPECT_EQ(full->max_tokens, 9);
  EXPECT_TRUE(full->ignore_eos);
  EXPECT_EQ(full->priority, -4);
}

TEST(TranslateRequest, TakesPartInThePrefixCacheUnlessToldOtherwise) {
  v1::GenerateRequest request = Valid();
  EXPECT_TRUE(TranslateRequest(request, MakeHashModel(), 1)->prefix_cache);
  request.set_cache_salt("tenant");
  request.set_prefix_cache(true);
  EXPECT_EQ(TranslateRequest(request, MakeHashModel(), 1)->cache_salt, "tenant");
  EXPECT_TRUE(TranslateRequest(request, MakeHashModel(), 1)->prefix_cache);
  request.set_prefix_cache(false);
  EXPECT_FALSE(TranslateRequest(request, MakeHashModel(), 1)->prefix_cache);
}

TEST(TranslateRequest, BestOfGeneratesMoreThanItReturnsAndNeedsLogprobs) {
  v1::GenerateRequest request = Valid();
  request.mutable_sampling()->set_n(3);
  EXPECT_EQ(TranslateRequest(request, MakeHashModel(), 1)->n, 3);
  EXPECT_EQ(TranslateRequest(request, MakeHashModel(), 1)->sampling.num_logprobs, -1);
  request.mutable_sampling()->set_best_of(5);
  const absl::StatusOr<Request> best = TranslateRequest(request, MakeHashModel(), 1);
  EXPECT_EQ(best->n, 5);
  EXPECT_EQ(best->sampling.num_logprobs, 0);
  const AnswerShape shape = ShapeOf(request);
  EXPECT_EQ(shape.choices, 3);
  EXPECT_EQ(shape.generated, 5);
  EXPECT_FALSE(shape.logprobs);
  request.mutable_sampling()->set_logprobs(2);
  EXPECT_EQ(TranslateRequest(request, MakeHashModel(), 1)->sampling.num_logprobs, 2);
  EXPECT_TRUE(ShapeOf(request).logprobs);
}

TEST(TranslateRequest, SpecialTokensCountOnlyWhereTheyMay) {
  const ServedModel model = MakeHashModel();
  v1::GenerateRequest request;
  request.set_text("<|im_end|>");
  const auto plain = TranslateRequest(request, model, 1);
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_THAT(plain->prompt, ::testing::Not(::testing::Contains(kHashEnd)));
  request.set_parse_special(true);
  EXPECT_EQ(TranslateRequest(request, model, 1)->prompt, (std::vector<TokenId>{kHashEnd}));

  v1::ChatMessage* message = request.mutable_chat()->add_messages();
  message->set_role("user");
  message->set_content("a<|im_end|>");
  const auto chat = TranslateRequest(request, model, 1);
  ASSERT_TRUE(chat.ok()) << chat.status();
  // Two starts and one end are the template's; the user's text forged none.
  EXPECT_EQ(std::count(chat->prompt.begin(), chat->prompt.end(), kHashStart), 2);
  EXPECT_EQ(std::count(chat->prompt.begin(), chat->prompt.end(), kHashEnd), 1);
}

TEST(TranslateRequest, TakesPromptLogprobsUpToTwenty) {
  const ServedModel model = MakeHashModel();
  v1::GenerateRequest request = Valid();
  EXPECT_EQ(TranslateRequest(request, model, 1)->prompt_logprobs, -1);
  request.mutable_sampling()->set_prompt_logprobs(0);
  EXPECT_EQ(TranslateRequest(request, model, 1)->prompt_logprobs, 0);
  request.mutable_sampling()->set_prompt_logprobs(21);
  EXPECT_THAT(std::string(TranslateRequest(request, model, 1).status().message()),
              HasSubstr("is 21; it must be at most 20"));
}

}  // namespace
}  // namespace octavo
