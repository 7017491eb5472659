#include "scheduler/transport/served_fields.h"

#include <string>
#include <vector>

#include "common/rpc/error_details.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace octavo {
namespace {

using ::testing::HasSubstr;

v1::GenerateRequest Valid() {
  v1::GenerateRequest request;
  request.set_text("hello");
  return request;
}

TEST(CheckServed, NamesEveryFieldOfALaterVersion) {
  v1::GenerateRequest request = Valid();
  auto* sampling = request.mutable_sampling();
  sampling->add_stop("x");
  sampling->add_stop_token_ids(1);
  sampling->set_repetition_penalty(1.5);
  sampling->set_frequency_penalty(0.5);
  sampling->set_presence_penalty(0.5);
  (*sampling->mutable_logit_bias())[1] = 1;
  sampling->set_min_tokens(1);
  sampling->set_typical_p(0.5);
  sampling->add_allowed_token_ids(1);
  sampling->add_banned_token_ids(2);
  sampling->set_include_stop(true);
  request.mutable_output_format()->set_regex("a*");
  request.set_stream_interval(2);
  request.set_skip_special(false);
  auto* chat = request.mutable_chat();
  chat->add_tools("{}");
  chat->set_template_arguments("{}");
  chat->set_tool_format(v1::TOOL_FORMAT_HERMES);
  chat->add_messages()->set_role("user");
  auto* message = chat->add_messages();
  message->add_tool_calls()->set_name("f");
  message->set_tool_call_id("call_1");
  message->set_name("f");
  const absl::Status status = CheckServed(request);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  std::vector<std::string> names;
  for (const auto& violation : BadRequestOf(status)) names.push_back(violation.field);
  EXPECT_THAT(
      names,
      ::testing::ElementsAre(
          "sampling.stop", "sampling.stop_token_ids", "sampling.repetition_penalty",
          "sampling.frequency_penalty", "sampling.presence_penalty", "sampling.logit_bias",
          "sampling.min_tokens", "sampling.typical_p", "sampling.allowed_token_ids",
          "sampling.banned_token_ids", "sampling.include_stop", "output_format", "stream_interval",
          "skip_special", "chat.tools", "chat.template_arguments", "chat.tool_format",
          "chat.messages[1].tool_calls", "chat.messages[1].tool_call_id", "chat.messages[1].name"));
  for (const std::string& name : names) EXPECT_THAT(status.message(), HasSubstr(name));
}

TEST(CheckServed, NeutralValuesAskForNothing) {
  v1::GenerateRequest request = Valid();
  auto* sampling = request.mutable_sampling();
  sampling->set_n(1);
  sampling->set_repetition_penalty(1);
  sampling->set_frequency_penalty(0);
  sampling->set_presence_penalty(0);
  sampling->set_best_of(1);
  sampling->set_min_tokens(0);
  sampling->set_typical_p(1);
  sampling->set_include_stop(false);
  request.mutable_output_format()->set_json_object(false);
  request.set_stream_interval(1);
  request.set_skip_special(true);
  request.mutable_chat()->set_tool_format(v1::TOOL_FORMAT_NONE);
  EXPECT_TRUE(CheckServed(request).ok());
}

TEST(CheckServed, FieldsFromTheFutureAreNotIgnored) {
  v1::GenerateRequest request = Valid();
  std::string wire = request.SerializeAsString();
  wire += std::string("\xca\x3e\x01x", 4);  // field 1001, one byte "x"
  ASSERT_TRUE(request.ParseFromString(wire));
  EXPECT_THAT(CheckServed(request).message(), HasSubstr("field number 1001"));
}

TEST(CheckServed, ChatsToTokenizeAreHeldToTheSame) {
  v1::TokenizeRequest request;
  request.mutable_chat()->add_messages()->set_role("user");
  EXPECT_TRUE(CheckServed(request).ok());
  request.mutable_chat()->add_tools("{}");
  EXPECT_THAT(CheckServed(request).message(), HasSubstr("chat.tools"));
}

}  // namespace
}  // namespace octavo
