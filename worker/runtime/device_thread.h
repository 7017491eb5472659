// The one thread that calls a backend.
#ifndef OCTAVO_WORKER_RUNTIME_DEVICE_THREAD_H_
#define OCTAVO_WORKER_RUNTIME_DEVICE_THREAD_H_

#include <functional>
#include <thread>

#include "absl/functional/function_ref.h"
#include "common/bounded_queue.h"

namespace octavo {

// Runs tasks one after the other. Thread-safe but for the destructor.
class DeviceThread {
 public:
  DeviceThread();
  // Runs what was accepted, then joins.
  ~DeviceThread();
  DeviceThread(const DeviceThread&) = delete;
  DeviceThread& operator=(const DeviceThread&) = delete;

  // False when the queue is full.
  bool TryPost(std::function<void()> task) { return queue_.TryPush(std::move(task)); }
  // Waits for room in the queue. Not from a task.
  void Post(std::function<void()> task) { queue_.Push(std::move(task)); }
  // Whether tasks wait; for a task that could make way.
  bool busy() const { return queue_.size() > 0; }
  // Returns when `task` has run. Not from a task.
  void Run(absl::FunctionRef<void()> task);

 private:
  void Loop();

  BoundedQueue<std::function<void()>> queue_;
  std::thread thread_;
};

}  // namespace octavo

#endif  // OCTAVO_WORKER_RUNTIME_DEVICE_THREAD_H_
