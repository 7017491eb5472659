#include "tools/batch_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace octavo::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(BatchLine, CarriesEveryFieldToTheRequest) {
  const BatchLine line = ParseBatchLine(
      R"({"id": "a", "prompt_token_ids": [1, 2], "max_tokens": 5, "temperature": 0.5, "top_p": 0.9,
          "top_k": 4, "min_p": 0.1, "n": 2, "seed": 18446744073709551615, "ignore_eos": true,
          "stop": ["x", "y"], "stop_token_ids": [7], "logprobs": 3, "priority": -1})",
      1);
  ASSERT_TRUE(line.error.ok()) << line.error;
  EXPECT_EQ(line.id, "a");
  EXPECT_THAT(line.request.token_ids().ids(), ElementsAre(1, 2));
  EXPECT_EQ(line.request.max_tokens(), 5);
  EXPECT_FLOAT_EQ(line.request.sampling().temperature(), 0.5f);
  EXPECT_FLOAT_EQ(line.request.sampling().top_p(), 0.9f);
  EXPECT_EQ(line.request.sampling().top_k(), 4);
  EXPECT_FLOAT_EQ(line.request.sampling().min_p(), 0.1f);
  EXPECT_EQ(line.request.sampling().n(), 2);
  EXPECT_EQ(line.request.sampling().seed(), UINT64_MAX);
  EXPECT_TRUE(line.request.ignore_eos());
  EXPECT_THAT(line.request.sampling().stop(), ElementsAre("x", "y"));
  EXPECT_THAT(line.request.sampling().stop_token_ids(), ElementsAre(7));
  EXPECT_EQ(line.request.sampling().logprobs(), 3);
  EXPECT_EQ(line.request.priority(), -1);
}

TEST(BatchLine, NumbersLinesWithoutAnId) {
  EXPECT_EQ(ParseBatchLine(R"({"prompt": "hi"})", 12).id, "12");
  EXPECT_EQ(ParseBatchLine(R"({"id": 7, "prompt": "hi"})", 12).id, "7");
}

TEST(BatchLine, TakesChatMessages) {
  const BatchLine line = ParseBatchLine(R"({"messages": [{"role": "user", "content": "hi"}]})", 1);
  ASSERT_TRUE(line.error.ok()) << line.error;
  ASSERT_EQ(line.request.chat().messages_size(), 1);
  EXPECT_EQ(line.request.chat().messages(0).content(), "hi");
}

TEST(BatchLine, NamesWhatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"not json", "line 3 is not a JSON object"},
      {R"({"prompt": 5})", "prompt is 5; it must be a string"},
      {R"({"prompt": "a", "max_tokens": -1})", "max_tokens is -1"},
      {R"({"prompt": "a", "max_tokens": 4294967296})", "max_tokens is 4294967296"},
      {R"({"prompt": "a", "temperature": "hot"})", "temperature is \"hot\""},
      {R"({"prompt": "a", "tempperature": 1})", "unknown field tempperature"},
      {R"({"prompt": "a", "messages": []})", "it has 2"},
      {R"({"id": "x"})", "it has 0"},
      {R"({"id": [], "prompt": "a"})", "id is []"},
  };
  for (const auto& [text, message] : cases) {
    const BatchLine line = ParseBatchLine(text, 3);
    EXPECT_EQ(line.error.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(line.error.message()), HasSubstr(message));
  }
}

TEST(BatchLine, CarriesABeamSearch) {
  const auto parse = [](const std::string& fields) {
    return ParseBatchLine("{\"prompt\": \"a\", " + fields + "}", 1);
  };
  BatchLine line = parse(R"("use_beam_search": true, "beam_width": 4, "length_penalty": -0.5,
                            "early_stopping": "never", "n": 2)");
  ASSERT_TRUE(line.error.ok()) << line.error;
  EXPECT_EQ(line.request.beam_search().width(), 4u);
  EXPECT_EQ(line.request.beam_search().length_penalty(), -0.5);
  EXPECT_EQ(line.request.beam_search().early_stopping(), v1::EARLY_STOPPING_NEVER);
  EXPECT_EQ(line.request.sampling().n(), 2u);
  line = parse(R"("use_beam_search": true, "beam_width": 4, "early_stopping": true)");
  EXPECT_EQ(line.request.beam_search().early_stopping(), v1::EARLY_STOPPING_TRUE);
  // What a client sends that always names every field.
  line = parse(R"("use_beam_search": false, "length_penalty": 1.0, "early_stopping": false)");
  EXPECT_TRUE(line.error.ok()) << line.error;
  EXPECT_FALSE(line.request.has_beam_search());
  const auto refusal = [&](const std::string& fields) {
    return std::string(parse(fields).error.message());
  };
  EXPECT_THAT(refusal(R"("beam_width": 4)"), HasSubstr("beam_width is 4"));
  EXPECT_THAT(refusal(R"("use_beam_search": false, "length_penalty": 2)"),
              HasSubstr("length_penalty is 2"));
  EXPECT_THAT(refusal(R"("use_beam_search": true)"), HasSubstr("needs a beam_width"));
  EXPECT_THAT(refusal(R"("use_beam_search": 1, "beam_width": 4)"), HasSubstr("true or false"));
  EXPECT_THAT(refusal(R"("use_beam_search": true, "beam_width": 4, "early_stopping": "no")"),
              HasSubstr("true, false or"));
}

TEST(BatchLine, RefusesFieldsOfLaterVersionsByName) {
  const BatchLine line = ParseBatchLine(R"({"prompt": "a", "logit_bias": {}})", 1);
  EXPECT_EQ(line.error.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(line.error.message()), HasSubstr("logit_bias"));
}

}  // namespace
}  // namespace octavo::tools
