#include "common/bounded_queue.h"

#include <memory>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace octavo {
namespace {

TEST(BoundedQueue, RefusesBeyondItsCapacityAndLeavesTheItem) {
  BoundedQueue<std::unique_ptr<int>> queue(1);
  EXPECT_TRUE(queue.TryPush(std::make_unique<int>(1)));
  auto second = std::make_unique<int>(2);
  EXPECT_FALSE(queue.TryPush(std::move(second)));
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(**queue.TryPop(), 1);
  EXPECT_TRUE(queue.TryPush(std::move(second)));
  EXPECT_EQ(queue.size(), 1u);
}

TEST(BoundedQueue, PopWaitsForAnItemOrTheTimeout) {
  BoundedQueue<int> queue(4);
  const absl::Time start = absl::Now();
  EXPECT_EQ(queue.Pop(absl::Milliseconds(20)), std::nullopt);
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(20));
  std::thread producer([&queue] { queue.Push(7); });
  EXPECT_EQ(queue.Pop(), 7);
  producer.join();
}

TEST(BoundedQueue, CloseEndsWaitersButKeepsWhatIsInside) {
  BoundedQueue<int> queue(1);
  ASSERT_TRUE(queue.TryPush(1));
  std::thread blocked([&queue] { EXPECT_FALSE(queue.Push(2)); });
  absl::SleepFor(absl::Milliseconds(5));
  queue.Close();
  blocked.join();
  EXPECT_FALSE(queue.TryPush(3));
  EXPECT_EQ(queue.Pop(), 1);
  EXPECT_EQ(queue.Pop(), std::nullopt);
}

TEST(BoundedQueue, PassesEverythingInOrderBetweenThreads) {
  constexpr int kItems = 10000;
  BoundedQueue<int> queue(16);
  std::thread producer([&queue] {
    for (int i = 0; i < kItems; ++i) queue.Push(int{i});
    queue.Close();
  });
  int expected = 0;
  while (const std::optional<int> item = queue.Pop()) EXPECT_EQ(*item, expected++);
  producer.join();
  EXPECT_EQ(expected, kItems);
}

}  // namespace
}  // namespace octavo
