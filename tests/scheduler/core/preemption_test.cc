#include "scheduler/core/preemption.h"

#include <vector>

#include "gtest/gtest.h"

namespace octavo {
namespace {

VictimCandidate Candidate(int32_t priority, int64_t cost, int arrival, RequestId id,
                          bool immune = false) {
  return {.rank = {priority, absl::UnixEpoch() + absl::Seconds(arrival), id},
          .cost_tokens = cost,
          .immune = immune};
}

const Rank kOldest = {0, absl::UnixEpoch(), 0};

TEST(ChooseVictim, OrdersByPriorityThenCostThenArrivalThenId) {  // life.3
  EXPECT_EQ(ChooseVictim(std::vector{Candidate(0, 1, 9, 1), Candidate(1, 50, 2, 2)}, kOldest), 1u);
  EXPECT_EQ(ChooseVictim(std::vector{Candidate(1, 9, 9, 1), Candidate(1, 5, 2, 2)}, kOldest), 1u);
  EXPECT_EQ(ChooseVictim(std::vector{Candidate(1, 5, 9, 1), Candidate(1, 5, 2, 2)}, kOldest), 0u);
  EXPECT_EQ(ChooseVictim(std::vector{Candidate(1, 5, 2, 1), Candidate(1, 5, 2, 2)}, kOldest), 1u);
}

TEST(ChooseVictim, TakesOnlyJuniorsOfTheBeneficiary) {
  const std::vector<VictimCandidate> all = {Candidate(0, 5, 1, 1), Candidate(0, 5, 2, 2),
                                            Candidate(1, 5, 0, 3)};
  EXPECT_EQ(ChooseVictim(all, all[0].rank), 2u);
  EXPECT_EQ(ChooseVictim(all, all[1].rank), 2u);
  EXPECT_EQ(ChooseVictim(all, all[2].rank), std::nullopt);
}

TEST(ChooseVictim, TheBeneficiaryIsNeverTheVictim) {
  const std::vector<VictimCandidate> alone = {Candidate(0, 5, 1, 1)};
  EXPECT_EQ(ChooseVictim(alone, alone[0].rank), std::nullopt);
}

TEST(ChooseVictim, PassesOverTheImmune) {
  EXPECT_EQ(ChooseVictim(std::vector{Candidate(5, 0, 9, 1, true), Candidate(1, 5, 2, 2)}, kOldest),
            1u);
  EXPECT_EQ(ChooseVictim(std::vector{Candidate(5, 0, 9, 1, true)}, kOldest), std::nullopt);
}

}  // namespace
}  // namespace octavo
