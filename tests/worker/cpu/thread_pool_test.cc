#include "worker/cpu/thread_pool.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace octavo {
namespace {

double CpuSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

TEST(ThreadPool, CallsTheBodyOnceOnEveryThread) {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.size(), threads);
    std::vector<int> calls(static_cast<size_t>(threads), 0);
    std::vector<std::thread::id> ids(static_cast<size_t>(threads));
    for (int run = 0; run < 500; ++run)
      pool.Run([&](int thread) {
        ++calls[static_cast<size_t>(thread)];
        ids[static_cast<size_t>(thread)] = std::this_thread::get_id();
      });
    for (int count : calls) EXPECT_EQ(count, 500);
    EXPECT_EQ(ids[0], std::this_thread::get_id());
    std::sort(ids.begin(), ids.end());
    EXPECT_EQ(std::unique(ids.begin(), ids.end()), ids.end());
  }
}

TEST(ThreadPool, BarrierSeparatesPhases) {
  for (int threads : {2, 3, 5}) {
    ThreadPool pool(threads);
    constexpr int kPhases = 300;
    std::vector<std::atomic<int>> arrived(kPhases);
    std::atomic<int> early{0};
    pool.Run([&](int) {
      for (int phase = 0; phase < kPhases; ++phase) {
        arrived[static_cast<size_t>(phase)].fetch_add(1, std::memory_order_relaxed);
        pool.Barrier();
        if (arrived[static_cast<size_t>(phase)].load(std::memory_order_relaxed) != threads)
          early.fetch_add(1);
      }
    });
    EXPECT_EQ(early.load(), 0);
  }
}

TEST(ThreadPool, PlainWritesCrossRunAndBarrier) {
  ThreadPool pool(4);
  std::vector<int> values(4, 0);
  for (int run = 1; run <= 500; ++run) {
    int sum_after_barrier[4] = {};
    pool.Run([&](int thread) {
      values[static_cast<size_t>(thread)] = run + thread;
      pool.Barrier();
      for (int value : values) sum_after_barrier[thread] += value;
      pool.Barrier();
    });
    for (int sum : sum_after_barrier) ASSERT_EQ(sum, 4 * run + 6);
  }
}

TEST(ThreadPool, KeepsMovingWithManyMoreThreadsThanCores) {
  ThreadPool pool(32);
  std::atomic<int> total{0};
  const auto start = std::chrono::steady_clock::now();
  for (int run = 0; run < 100; ++run)
    pool.Run([&](int) {
      pool.Barrier();
      total.fetch_add(1, std::memory_order_relaxed);
      pool.Barrier();
    });
  EXPECT_EQ(total.load(), 3200);
  // A pool that spins through its time slices would need some 32 x 10 ms a run.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

TEST(ThreadPool, SurvivesPoolsSideBySideAndBusyCores) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> load;
  for (unsigned i = 0; i < 2 * std::thread::hardware_concurrency(); ++i)
    load.emplace_back([&] {
      while (!stop.load(std::memory_order_relaxed)) {
      }
    });
  std::vector<std::thread> owners;
  std::atomic<int> total{0};
  for (int owner = 0; owner < 3; ++owner)
    owners.emplace_back([&] {
      ThreadPool pool(3);
      for (int run = 0; run < 40; ++run)
        pool.Run([&](int) {
          pool.Barrier();
          total.fetch_add(1, std::memory_order_relaxed);
        });
    });
  for (std::thread& owner : owners) owner.join();
  stop = true;
  for (std::thread& thread : load) thread.join();
  EXPECT_EQ(total.load(), 3 * 40 * 3);
}

TEST(ThreadPool, ConstructsAndEndsWithoutRunning) {
  for (int i = 0; i < 200; ++i) ThreadPool pool(4);
}

TEST(ThreadPool, IdleThreadsSleep) {
  ThreadPool pool(4);
  pool.Run([](int) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const double before = CpuSeconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(CpuSeconds() - before, 0.05);
}

TEST(ThreadPool, WakesSleepingThreads) {
  ThreadPool pool(3);
  std::atomic<int> total{0};
  for (int run = 0; run < 20; ++run) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    pool.Run([&](int) { total.fetch_add(1); });
  }
  EXPECT_EQ(total.load(), 60);
}

}  // namespace
}  // namespace octavo
