#include "tools/simulate/workload.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace octavo::simulate {
namespace {

Trace TwoRequests() {
  return {.name = "two",
          .requests = {{.arrival_seconds = 0, .prompt_tokens = 100, .output_tokens = 3},
                       {.arrival_seconds = 4, .prompt_tokens = 50, .output_tokens = 5}}};
}

std::vector<double> Arrivals(const Trace& trace, const WorkloadOptions& options) {
  std::vector<double> arrivals;
  for (Workload workload(&trace, options); !workload.done(); workload.Skip()) {
    arrivals.push_back(workload.next_arrival());
  }
  return arrivals;
}

size_t CommonPrefix(const Request& a, const Request& b) {
  return static_cast<size_t>(
      std::mismatch(a.prompt.begin(), a.prompt.end(), b.prompt.begin(), b.prompt.end()).first -
      a.prompt.begin());
}

TEST(Workload, RepeatsTheTraceShiftedInTime) {
  const Trace trace = TwoRequests();
  EXPECT_EQ(Arrivals(trace, {.requests = 5, .vocab_size = 100}),
            (std::vector<double>{0, 4, 8, 12, 16}));
  EXPECT_EQ(Arrivals(trace, {.requests = 3, .arrival_scale = 2, .vocab_size = 100}),
            (std::vector<double>{0, 2, 4}));
  EXPECT_EQ(Arrivals(trace, {.vocab_size = 100}).size(), 2u);
}

TEST(Workload, DrawsArrivalsAtARate) {
  const Trace trace = TwoRequests();
  const std::vector<double> arrivals =
      Arrivals(trace, {.requests = 20'000, .request_rate = 4, .vocab_size = 100});
  EXPECT_TRUE(std::is_sorted(arrivals.begin(), arrivals.end()));
  EXPECT_NEAR(arrivals.back(), 5000, 150);  // 4 standard deviations
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(Arrivals(trace, {.request_rate = infinity, .vocab_size = 100}),
            (std::vector<double>{0, 0}));
}

TEST(Workload, RequestsEndByLengthAfterTheTracesTokens) {
  const Trace trace = TwoRequests();
  Workload workload(&trace, {.choices = 2, .vocab_size = 100});
  const Request first = workload.Take();
  EXPECT_EQ(first.prompt.size(), 100u);
  EXPECT_EQ(first.max_tokens, 3);
  EXPECT_EQ(first.n, 2);
  EXPECT_TRUE(first.ignore_eos);
  for (const TokenId token : first.prompt) {
    EXPECT_GE(token, 0);
    EXPECT_LT(token, 100);
  }
  const Request second = workload.Take();
  EXPECT_EQ(second.prompt.size(), 50u);
  EXPECT_EQ(second.arrival - first.arrival, absl::Seconds(4));
  EXPECT_TRUE(workload.done());
}

TEST(Workload, PromptsShareNothingUnlessTheTraceSaysSo) {
  const Trace trace = TwoRequests();
  Workload workload(&trace, {.requests = 3, .vocab_size = 1 << 20});
  const Request a = workload.Take();
  const Request b = workload.Take();
  const Request repeat_of_a = workload.Take();
  EXPECT_EQ(CommonPrefix(a, b), 0u);
  EXPECT_EQ(CommonPrefix(a, repeat_of_a), 0u);
}

TEST(Workload, EqualHashIdsAreEqualTokensWithinOnePass) {
  const Trace trace{.name = "shared",
                    .requests = {{.arrival_seconds = 0,
                                  .prompt_tokens = 1100,
                                  .output_tokens = 1,
                                  .first_hash_id = 0,
                                  .num_hash_ids = 3},
                                 {.arrival_seconds = 1,
                                  .prompt_tokens = 1024,
                                  .output_tokens = 1,
                                  .first_hash_id = 3,
                                  .num_hash_ids = 2}},
                    .hash_ids = {7, 8, 9, 7, 5}};
  Workload workload(&trace, {.requests = 4, .vocab_size = 1 << 20});
  const Request a = workload.Take();
  const Request b = workload.Take();
  const Request next_a = workload.Take();
  const Request next_b = workload.Take();
  EXPECT_EQ(CommonPrefix(a, b), 512u);
  EXPECT_EQ(CommonPrefix(next_a, next_b), 512u);
  EXPECT_EQ(CommonPrefix(a, next_a), 0u);
}

TEST(Workload, TheSeedDecidesTheTokens) {
  const Trace trace = TwoRequests();
  EXPECT_EQ(Workload(&trace, {.seed = 3, .vocab_size = 1000}).Take().prompt,
            Workload(&trace, {.seed = 3, .vocab_size = 1000}).Take().prompt);
  EXPECT_NE(Workload(&trace, {.seed = 3, .vocab_size = 1000}).Take().prompt,
            Workload(&trace, {.seed = 4, .vocab_size = 1000}).Take().prompt);
}

}  // namespace
}  // namespace octavo::simulate
