// Gloo between processes, of which one dies or stops.
#include <csignal>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/comm/rank_processes.h"
#include "worker/comm/gloo_communicator.h"

namespace octavo {
namespace {

using ::testing::HasSubstr;

RankProcesses::Offer Gloo(absl::Duration timeout) {
  return [timeout](const GroupPlace& place) {
    return OfferGloo({.place = place, .timeout = timeout});
  };
}

// Sums until something fails; answers the sums or the error.
RankProcesses::Work Sum(int rounds) {
  return [rounds](Communicator& communicator) {
    double total = 0;
    for (int round = 0; round < rounds; ++round) {
      std::vector<float> data(5000, static_cast<float>(communicator.place().rank + 1));
      const absl::Status status = communicator.AllReduceSum(data.data(), 5000);
      if (!status.ok()) return status.ToString();
      total += data[4999];
    }
    return "sum " + std::to_string(static_cast<int64_t>(total));
  };
}

constexpr int kForever = 1 << 30;

TEST(CommunicatorProcess, RanksSumAcrossProcesses) {
  for (const int32_t size : {2, 3}) {
    RankProcesses ranks(size, Gloo(absl::Seconds(20)), Sum(200));
    for (int32_t rank = 0; rank < size; ++rank)
      EXPECT_EQ(ranks.Answer(rank), "sum " + std::to_string(200 * size * (size + 1) / 2));
  }
}

TEST(CommunicatorProcess, AKilledRankIsReportedLongBeforeTheTimeout) {
  RankProcesses ranks(3, Gloo(absl::Seconds(30)), Sum(kForever));
  const absl::Time start = absl::Now();
  ranks.Signal(2, SIGKILL);
  for (const int32_t rank : {0, 1}) EXPECT_THAT(ranks.Answer(rank), HasSubstr("is gone"));
  EXPECT_LT(absl::Now() - start, absl::Seconds(10));
}

TEST(CommunicatorProcess, AStoppedRankIsReportedAfterTheTimeout) {
  RankProcesses ranks(2, Gloo(absl::Seconds(3)), Sum(kForever));
  const absl::Time start = absl::Now();
  ranks.Signal(1, SIGSTOP);
  EXPECT_THAT(ranks.Answer(0), HasSubstr("rank 1 of 2 did not answer within 3s"));
  EXPECT_LT(absl::Now() - start, absl::Seconds(10));
}

}  // namespace
}  // namespace octavo
