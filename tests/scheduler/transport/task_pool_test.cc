#include "scheduler/transport/task_pool.h"

#include <atomic>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"

namespace octavo {
namespace {

TEST(TaskPool, RefusesBeyondItsBoundAndRunsWhatItAccepted) {
  std::atomic<int> ran = 0;
  absl::Notification started, go;
  TaskPool pool(1, 2);
  ASSERT_TRUE(pool.TryRun([&] {
    started.Notify();
    go.WaitForNotification();
    ++ran;
  }));
  started.WaitForNotification();
  EXPECT_TRUE(pool.TryRun([&] { ++ran; }));
  EXPECT_TRUE(pool.TryRun([&] { ++ran; }));
  EXPECT_FALSE(pool.TryRun([&] { ++ran; }));
  go.Notify();
  pool.Stop();
  EXPECT_EQ(ran, 3);
  EXPECT_FALSE(pool.TryRun([&] { ++ran; }));
}

}  // namespace
}  // namespace octavo
