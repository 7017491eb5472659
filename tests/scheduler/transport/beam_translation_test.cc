#include "scheduler/transport/beam_translation.h"

#include <functional>
#include <limits>
#include <string>

#include "common/rpc/error_details.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace octavo {
namespace {

using ::testing::HasSubstr;

v1::GenerateRequest WithBeams(uint32_t width) {
  v1::GenerateRequest request;
  request.set_text("hello");
  request.mutable_beam_search()->set_width(width);
  return request;
}

TEST(TranslateBeams, FillsWhatTheCoreNeeds) {
  v1::GenerateRequest request = WithBeams(4);
  Request to;
  ASSERT_TRUE(TranslateBeams(request, 256, &to).ok());
  EXPECT_EQ(to.n, 4);
  EXPECT_EQ(to.beam->width, 4);
  EXPECT_EQ(to.beam->length_penalty, 1);
  EXPECT_EQ(to.beam->early_stopping, EarlyStopping::kFalse);
  request.mutable_sampling()->set_n(2);
  request.mutable_sampling()->set_temperature(0);
  request.mutable_beam_search()->set_length_penalty(-0.5);
  request.mutable_beam_search()->set_early_stopping(v1::EARLY_STOPPING_NEVER);
  ASSERT_TRUE(TranslateBeams(request, 256, &to).ok());
  EXPECT_EQ(to.n, 2);
  EXPECT_EQ(to.beam->length_penalty, -0.5);
  EXPECT_EQ(to.beam->early_stopping, EarlyStopping::kNever);
}

TEST(TranslateBeams, LeavesOtherRequestsAlone) {
  Request to;
  to.n = 3;
  EXPECT_TRUE(TranslateBeams(v1::GenerateRequest(), 256, &to).ok());
  EXPECT_EQ(to.n, 3);
  EXPECT_FALSE(to.beam.has_value());
}

TEST(TranslateBeams, AsWideAsAStepAtMost) {
  Request to;
  EXPECT_TRUE(TranslateBeams(WithBeams(4), 4, &to).ok());
  EXPECT_THAT(std::string(TranslateBeams(WithBeams(5), 4, &to).message()),
              HasSubstr("beam_search.width: is 5; it must be in [1, 4]"));
}

struct BadCase {
  const char* message;
  std::function<void(v1::GenerateRequest&)> breaks;
};

TEST(TranslateBeams, NamesFieldValueAndLimitOfWhatIsWrong) {
  const BadCase cases[] = {
      {"beam_search.width: is 33; it must be in [1, 32]",
       [](auto& r) { r.mutable_beam_search()->set_width(33); }},
      {"beam_search.width: is 0", [](auto& r) { r.mutable_beam_search()->set_width(0); }},
      {"beam_search.length_penalty: is 11; it must be in [-10, 10]",
       [](auto& r) { r.mutable_beam_search()->set_length_penalty(11); }},
      {"beam_search.length_penalty: is nan",
       [](auto& r) {
         r.mutable_beam_search()->set_length_penalty(std::numeric_limits<double>::quiet_NaN());
       }},
      {"beam_search.early_stopping: is 7",
       [](auto& r) {
         r.mutable_beam_search()->set_early_stopping(static_cast<v1::EarlyStopping>(7));
       }},
      {"sampling.temperature: is 0.5; a beam search does not sample: it must be 0 or unset",
       [](auto& r) { r.mutable_sampling()->set_temperature(0.5); }},
      {"sampling.top_p: is 0.5", [](auto& r) { r.mutable_sampling()->set_top_p(0.5); }},
      {"sampling.top_k: is 5", [](auto& r) { r.mutable_sampling()->set_top_k(5); }},
      {"sampling.min_p: is 0.5", [](auto& r) { r.mutable_sampling()->set_min_p(0.5); }},
      {"sampling.best_of: is 4", [](auto& r) { r.mutable_sampling()->set_best_of(4); }},
      {"sampling.logprobs: is 5; with beam_search it must be 0",
       [](auto& r) { r.mutable_sampling()->set_logprobs(5); }},
      {"sampling.prompt_logprobs: is 0; with beam_search it must be unset",
       [](auto& r) { r.mutable_sampling()->set_prompt_logprobs(0); }},
      {"sampling.n: is 5; with beam_search it must be in [1, 4], the width",
       [](auto& r) { r.mutable_sampling()->set_n(5); }},
  };
  for (const BadCase& bad : cases) {
    v1::GenerateRequest request = WithBeams(4);
    bad.breaks(request);
    Request to;
    const absl::Status status = TranslateBeams(request, 256, &to);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad.message;
    EXPECT_THAT(std::string(status.message()), HasSubstr(bad.message));
  }
}

}  // namespace
}  // namespace octavo
