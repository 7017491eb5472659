#include "worker/cpu/thread_pool.h"

#include <immintrin.h>
#include <sched.h>

#include "common/check.h"

namespace octavo {
namespace {

// Of a counter of 2 to 4 GHz. A waiting thread first spins for about 2 us, which covers the
// hand-over between running threads; then it gives its CPU to whoever else can run, perhaps the
// awaited thread (measured with both on one CPU: 5 us a run instead of 160); after about 70 us,
// longer than the gaps between the ops of a step, it sleeps.
constexpr uint64_t kSpinCycles = 6'000;
constexpr uint64_t kYieldCycles = 200'000;

}  // namespace

ThreadPool::ThreadPool(int threads) : size_(threads) {
  OCTAVO_CHECK(threads >= 1, "threads=", threads);
  threads_.reserve(static_cast<size_t>(threads - 1));
  for (int thread = 1; thread < threads; ++thread)
    threads_.emplace_back([this, thread] { WorkerLoop(thread); });
}

ThreadPool::~ThreadPool() {
  body_ = nullptr;
  run_.fetch_add(1, std::memory_order_release);
  run_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::Run(absl::FunctionRef<void(int)> body) {
  if (size_ == 1) return body(0);
  OCTAVO_CHECK(pending_.load(std::memory_order_relaxed) == 0, "Run was called inside Run");
  body_ = &body;
  pending_.store(static_cast<uint32_t>(size_ - 1), std::memory_order_relaxed);
  run_.fetch_add(1, std::memory_order_release);
  run_.notify_all();
  body(0);
  while (const uint32_t pending = pending_.load(std::memory_order_acquire))
    AwaitChange(pending_, pending);
}

void ThreadPool::Barrier() {
  if (size_ == 1) return;
  const uint32_t barrier = barrier_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 < static_cast<uint32_t>(size_)) {
    AwaitChange(barrier_, barrier);
    return;
  }
  arrived_.store(0, std::memory_order_relaxed);
  barrier_.fetch_add(1, std::memory_order_release);
  barrier_.notify_all();
}

void ThreadPool::WorkerLoop(int thread) {
  for (uint32_t seen = 0;; ++seen) {
    AwaitChange(run_, seen);
    if (body_ == nullptr) return;
    (*body_)(thread);
    if (pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) pending_.notify_one();
  }
}

void ThreadPool::AwaitChange(const std::atomic<uint32_t>& word, uint32_t seen) {
  const uint64_t start = __rdtsc();
  for (uint64_t spent = 0; spent < kYieldCycles; spent = __rdtsc() - start) {
    if (word.load(std::memory_order_acquire) != seen) return;
    if (spent < kSpinCycles)
      _mm_pause();
    else
      sched_yield();
  }
  word.wait(seen, std::memory_order_acquire);
}

}  // namespace octavo
