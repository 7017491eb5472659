// Persistent threads that run one function together, for ops of some microseconds.
//
//   ThreadPool pool(DefaultThreads());
//   pool.Run([&](int thread) { ...; pool.Barrier(); ...; });
//
// Waiting threads spin and yield for some ten microseconds, because the next op of a step follows
// at once, and then sleep: an idle worker burns no CPU, and threads that share a core move on.
#ifndef OCTAVO_WORKER_CPU_THREAD_POOL_H_
#define OCTAVO_WORKER_CPU_THREAD_POOL_H_

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"

namespace octavo {

// Owned and called by one thread, which takes part as thread 0.
class ThreadPool {
 public:
  // REQUIRES: threads >= 1.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return size_; }

  // Calls body(0) .. body(size() - 1), each on its own thread, and returns when all have returned.
  // What the caller wrote before is visible to every body, and the other way round. Not nested.
  void Run(absl::FunctionRef<void(int thread)> body);

  // Inside Run: returns when all threads have arrived. Every thread must call it equally often.
  void Barrier();

 private:
  void WorkerLoop(int thread);
  // Returns once `word` differs from `seen`.
  static void AwaitChange(const std::atomic<uint32_t>& word, uint32_t seen);

  const int size_;
  const absl::FunctionRef<void(int)>* body_ = nullptr;  // published by run_; null ends the threads
  alignas(64) std::atomic<uint32_t> run_{0};            // counts calls of Run
  alignas(64) std::atomic<uint32_t> pending_{0};        // threads still inside the body
  alignas(64) std::atomic<uint32_t> arrived_{0};        // at the current barrier
  alignas(64) std::atomic<uint32_t> barrier_{0};        // counts completed barriers
  std::vector<std::thread> threads_;
};

}  // namespace octavo

#endif  // OCTAVO_WORKER_CPU_THREAD_POOL_H_
