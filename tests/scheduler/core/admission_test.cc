#include "scheduler/core/admission.h"

#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/scheduler/core/scheduler_harness.h"

namespace octavo {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string Impossible(const SchedulerConfig& config, const Request& request) {
  const absl::Status status = CheckRequest(config, request);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(Admission, AcceptsARequestAtTheLimit) {
  EXPECT_TRUE(CheckRequest(SmallConfig(), MakeRequest(1, 60, 4)).ok());
}

TEST(Admission, RefusesWhatCanNeverRunAndSaysTheNumbers) {
  const SchedulerConfig config = SmallConfig();
  EXPECT_THAT(Impossible(config, MakeRequest(1, 0, 4)), HasSubstr("at least 1"));
  EXPECT_THAT(Impossible(config, MakeRequest(1, 4, 0)), HasSubstr("max_tokens is 0"));
  EXPECT_THAT(Impossible(config, MakeRequest(1, 60, 5)),
              AllOf(HasSubstr("60 tokens"), HasSubstr("max_tokens is 5"), HasSubstr("together 65"),
                    HasSubstr("max_model_len is 64")));
  EXPECT_THAT(Impossible(config, MakeRequest(1, 60, std::numeric_limits<int32_t>::max())),
              HasSubstr("together 2147483707"));
}

TEST(Admission, RefusesTokensOutsideTheVocabulary) {
  Request request = MakeRequest(1, 3, 4);
  request.prompt[2] = 100;
  EXPECT_EQ(Impossible(SmallConfig(), request), "prompt token 2 is 100; ids are in [0, 100)");
  request.prompt[2] = -1;
  EXPECT_THAT(Impossible(SmallConfig(), request), HasSubstr("token 2 is -1"));
}

TEST(Admission, RefusesSamplingOutOfRange) {
  Request request = MakeRequest(1, 3, 4);
  request.sampling.temperature = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(Impossible(SmallConfig(), request), HasSubstr("temperature"));
}

TEST(Admission, RefusesMoreBlocksThanThePoolHas) {
  SchedulerConfig config = SmallConfig();
  config.num_blocks = 5;
  EXPECT_TRUE(CheckRequest(config, MakeRequest(1, 16, 5)).ok());  // the last token needs no slot
  EXPECT_THAT(Impossible(config, MakeRequest(1, 16, 6)),
              AllOf(HasSubstr("need 6 KV blocks of 4"), HasSubstr("the pool has 5")));
}

TEST(Admission, RefusesBeyondTheQueueLimits) {
  SchedulerConfig config = SmallConfig();
  config.max_queued_requests = 2;
  config.max_queued_tokens = 20;
  const Request request = MakeRequest(1, 11, 4);
  EXPECT_TRUE(CheckQueue(config, request, 1, 9).ok());
  const absl::Status requests = CheckQueue(config, request, 2, 9);
  EXPECT_EQ(requests.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(requests.message()),
              AllOf(HasSubstr("2 requests wait"), HasSubstr("max_queued_requests is 2")));
  const absl::Status tokens = CheckQueue(config, request, 1, 10);
  EXPECT_EQ(tokens.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(tokens.message()),
              AllOf(HasSubstr("10 tokens wait"), HasSubstr("has 11"), HasSubstr("is 20")));
}

TEST(Admission, APromptLongerThanTheTokenLimitEntersAnEmptyQueue) {
  SchedulerConfig config = SmallConfig();
  config.max_queued_tokens = 5;
  EXPECT_TRUE(CheckQueue(config, MakeRequest(1, 11, 4), 0, 0).ok());
}

TEST(Admission, ReserveIsTheWatermarkOrWhatRunningSequencesNeed) {
  SchedulerConfig config = SmallConfig();
  config.num_blocks = 1000;
  config.kv_watermark = 0.01;
  EXPECT_EQ(AdmissionReserve(config, 3), 10);
  EXPECT_EQ(AdmissionReserve(config, 30), 30);
}

TEST(Admission, AnImmuneRequestNeedsAllItCanEverHave) {
  SchedulerConfig config = SmallConfig();
  config.max_preemptions = 2;
  RequestState request(MakeRequest(1, 10, 7), 1);
  EXPECT_EQ(NeededTokens(config, request.choices[0]), 10);
  request.pool_preemptions = 2;
  EXPECT_TRUE(Immune(config, request));
  EXPECT_EQ(NeededTokens(config, request.choices[0]), 16);
}

TEST(Admission, EveryRunningSequenceGetsATokenOfEachStep) {
  SchedulerConfig config = SmallConfig();
  config.max_num_batched_tokens = 3;
  EXPECT_EQ(MaxRunning(config), 3);
}

}  // namespace
}  // namespace octavo
