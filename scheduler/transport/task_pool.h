// A few threads for work that is too long for gRPC's own: tokenising and rendering templates. Those
// threads also answer keepalive pings.
#ifndef OCTAVO_SCHEDULER_TRANSPORT_TASK_POOL_H_
#define OCTAVO_SCHEDULER_TRANSPORT_TASK_POOL_H_

#include <functional>
#include <thread>
#include <vector>

#include "common/bounded_queue.h"

namespace octavo {

// Thread-safe.
class TaskPool {
 public:
  TaskPool(int num_threads, size_t max_queued);
  ~TaskPool();  // Stop
  TaskPool(const TaskPool&) = delete;
  TaskPool& operator=(const TaskPool&) = delete;

  // False when too many tasks wait, or after Stop.
  bool TryRun(std::function<void()> task) { return tasks_.TryPush(std::move(task)); }
  // Runs what was accepted, then joins.
  void Stop();

 private:
  BoundedQueue<std::function<void()>> tasks_;
  std::vector<std::thread> threads_;
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_TRANSPORT_TASK_POOL_H_
