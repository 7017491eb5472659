#include "scheduler/transport/task_pool.h"

namespace octavo {

TaskPool::TaskPool(int num_threads, size_t max_queued) : tasks_(max_queued) {
  for (int i = 0; i < num_threads; ++i)
    threads_.emplace_back([this] {
      while (auto task = tasks_.Pop()) (*task)();
    });
}

TaskPool::~TaskPool() { Stop(); }

void TaskPool::Stop() {
  tasks_.Close();
  for (std::thread& thread : threads_)
    if (thread.joinable()) thread.join();
}

}  // namespace octavo
