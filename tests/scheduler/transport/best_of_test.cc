#include "scheduler/transport/best_of.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace octavo {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

TokenEvent Token(int32_t choice, TokenId token, float logprob) {
  TokenEvent event;
  event.choice_index = choice;
  event.token = token;
  event.logprob = logprob;
  return event;
}

TokenEvent Last(int32_t choice, TokenId token, float logprob, bool request_ended = false) {
  TokenEvent event = Token(choice, token, logprob);
  event.finish = FinishReason::kStop;
  event.request_ended = request_ended;
  return event;
}

TEST(BestOf, GivesTheLikeliestChoicesInOrderAndNumbersThemAnew) {
  BestOf best(4, 2);
  EXPECT_THAT(best.Collect({Token(0, 10, -1), Token(1, 11, -2), Token(2, 12, -1)}), IsEmpty());
  EXPECT_THAT(best.Collect({Last(0, 20, -3), Last(3, 13, -9)}), IsEmpty());
  EXPECT_THAT(best.Collect({}), IsEmpty());
  // Sums: 0: -4, 1: -2.5, 2: -1.5, 3: -9.
  const auto events = best.Collect({Last(2, 22, -0.5), Last(1, 21, -0.5, /*request_ended=*/true)});
  ASSERT_THAT(events, SizeIs(4));
  EXPECT_EQ(events[0].choice_index, 0);
  EXPECT_EQ(events[0].token, 12);
  EXPECT_EQ(events[1].token, 22);
  EXPECT_EQ(events[1].finish, FinishReason::kStop);
  EXPECT_EQ(events[2].choice_index, 1);
  EXPECT_EQ(events[2].token, 11);
  EXPECT_EQ(events[3].token, 21);
}

TEST(BestOf, EqualSumsKeepTheOrderOfTheChoices) {
  BestOf best(3, 2);
  const auto events =
      best.Collect({Last(2, 7, -1), Last(1, 6, -1), Last(0, 5, -2, /*request_ended=*/true)});
  ASSERT_THAT(events, SizeIs(2));
  EXPECT_EQ(events[0].token, 6);
  EXPECT_EQ(events[1].token, 7);
}

TEST(BestOf, AnAbortGivesWhatThereIs) {
  BestOf best(2, 1);
  TokenEvent end;
  end.choice_index = 1;
  end.finish = FinishReason::kAbort;
  end.request_ended = true;
  const auto events = best.Collect({Token(0, 5, -1), Last(0, 6, -4), end});
  ASSERT_THAT(events, SizeIs(1));  // the empty one has the larger sum
  EXPECT_EQ(events[0].finish, FinishReason::kAbort);
}

}  // namespace
}  // namespace octavo
