#include "tools/paging/traffic.h"

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "gtest/gtest.h"

namespace octavo::paging {
namespace {

constexpr int32_t kVocabulary = 1000;

TrafficOptions Options(const std::string& trace, int32_t requests, int32_t max_model_len) {
  return {.trace = trace,
          .requests = requests,
          .max_model_len = max_model_len,
          .vocab_size = kVocabulary};
}

double MeanPrompt(const Traffic& traffic) {
  double tokens = 0;
  for (const Request& request : traffic.requests) {
    tokens += static_cast<double>(request.prompt.size());
  }
  return tokens / static_cast<double>(traffic.requests.size());
}

TEST(Traffic, EveryRequestIsGreedyAndEndsAfterItsTokens) {
  for (const char* trace : {"sharegpt-like", "classification", "documents"}) {
    const absl::StatusOr<Traffic> traffic = MakeTraffic(Options(trace, 200, 1024));
    ASSERT_TRUE(traffic.ok()) << traffic.status();
    ASSERT_EQ(traffic->requests.size(), 200u);
    for (const Request& request : traffic->requests) {
      EXPECT_TRUE(request.ignore_eos && request.sampling.greedy());
      EXPECT_GE(request.max_tokens, 1);
      EXPECT_GE(request.prompt.size(), 1u);
      EXPECT_LE(request.prompt.size() + static_cast<size_t>(request.max_tokens), 1024u);
      EXPECT_TRUE(std::all_of(request.prompt.begin(), request.prompt.end(),
                              [](TokenId token) { return token >= 0 && token < kVocabulary; }));
    }
  }
}

TEST(Traffic, TheSameSeedGivesTheSameRequests) {
  const TrafficOptions options = Options("documents", 50, 4096);
  const absl::StatusOr<Traffic> first = MakeTraffic(options);
  const absl::StatusOr<Traffic> second = MakeTraffic(options);
  ASSERT_TRUE(first.ok() && second.ok());
  for (size_t i = 0; i < 50; ++i) {
    EXPECT_EQ(first->requests[i].prompt, second->requests[i].prompt);
    EXPECT_EQ(first->requests[i].max_tokens, second->requests[i].max_tokens);
  }
}

TEST(Traffic, ClassificationSharesItsInstruction) {
  const absl::StatusOr<Traffic> traffic = MakeTraffic(Options("classification", 2000, 4096));
  ASSERT_TRUE(traffic.ok());
  const std::vector<TokenId>& first = traffic->requests[0].prompt;
  for (const Request& request : traffic->requests) {
    ASSERT_TRUE(std::equal(first.begin(), first.begin() + 203, request.prompt.begin()));
    EXPECT_LE(request.max_tokens, 4);
  }
  EXPECT_NEAR(MeanPrompt(*traffic), 203 + 50, 3);
}

TEST(Traffic, FourQuestionsShareADocument) {
  const absl::StatusOr<Traffic> traffic = MakeTraffic(Options("documents", 400, 1 << 20));
  ASSERT_TRUE(traffic.ok());
  EXPECT_EQ(traffic->clipped, 0);
  const auto same = [&](size_t a, size_t b) {
    return std::equal(traffic->requests[a].prompt.begin(),
                      traffic->requests[a].prompt.begin() + 200,
                      traffic->requests[b].prompt.begin());
  };
  EXPECT_TRUE(same(4, 5) && same(4, 7));
  EXPECT_FALSE(same(3, 4));
  EXPECT_NEAR(MeanPrompt(*traffic), 3030, 400);
}

TEST(Traffic, LongRequestsOfAFileAreSkippedAndCounted) {
  const std::string path = testing::TempDir() + "/traffic_test_trace.csv";
  std::ofstream(path) << "TIMESTAMP,ContextTokens,GeneratedTokens\n"
                         "2023-11-16 18:15:46.0,374,44\n"
                         "2023-11-16 18:15:50.0,3960,109\n"
                         "2023-11-16 18:15:51.0,10,5\n";
  const absl::StatusOr<Traffic> traffic = MakeTraffic(Options(path, 2, 2048));
  ASSERT_TRUE(traffic.ok()) << traffic.status();
  EXPECT_EQ(traffic->skipped, 1);
  EXPECT_EQ(traffic->requests[1].prompt.size(), 10u);
  EXPECT_EQ(traffic->requests[1].max_tokens, 5);
  const absl::StatusOr<Traffic> more = MakeTraffic(Options(path, 3, 2048));
  EXPECT_EQ(more.status().code(), absl::StatusCode::kInvalidArgument);
  std::remove(path.c_str());
}

}  // namespace
}  // namespace octavo::paging
