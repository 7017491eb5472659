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

TEST(BatchLine, RefusesFieldsOfLaterVersionsByName) {
  const BatchLine line = ParseBatchLine(R"({"prompt": "a", "use_beam_search": true})", 1);
  EXPECT_EQ(line.error.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(line.error.message()), HasSubstr("use_beam_search"));
}

}  // namespace
}  // namespace octavo::tools
