#include "scheduler/core/request_queues.h"

#include "gtest/gtest.h"
#include "tests/scheduler/core/scheduler_harness.h"

namespace octavo {
namespace {

RequestState Make(RequestId id, int32_t priority, int arrival) {
  Request request = MakeRequest(id, 5, 4);
  request.priority = priority;
  request.arrival = absl::UnixEpoch() + absl::Seconds(arrival);
  return RequestState(std::move(request), id);
}

TEST(RequestQueues, BothListsAreInOrderOfPriorityArrivalAndId) {
  RequestState a = Make(1, 1, 0);
  RequestState b = Make(2, 0, 5);
  RequestState c = Make(4, 0, 3);
  RequestState d = Make(3, 0, 3);
  RequestQueues queues(4);
  for (RequestState* request : {&a, &b, &c, &d}) queues.Wait(request);
  EXPECT_EQ(queues.head(), &d);
  EXPECT_EQ(queues.waiting_tokens(), 20);
  for (RequestState* request : {&b, &a, &d, &c}) queues.Run(request);
  EXPECT_EQ(queues.running(), (std::vector<RequestState*>{&d, &c, &b, &a}));
  EXPECT_EQ(queues.head(), nullptr);
  EXPECT_EQ(queues.waiting_tokens(), 0);
}

TEST(RequestQueues, ReturningKeepsItsRank) {
  RequestState a = Make(1, 0, 0);
  RequestState b = Make(2, 0, 1);
  RequestQueues queues(2);
  queues.Wait(&a);
  queues.Run(&a);
  queues.Wait(&b);
  queues.Wait(&a);
  EXPECT_EQ(queues.head(), &a);
  EXPECT_TRUE(queues.running().empty());
  queues.End(&a);
  EXPECT_EQ(queues.head(), &b);
  EXPECT_EQ(a.phase, Phase::kEnded);
}

}  // namespace
}  // namespace octavo
