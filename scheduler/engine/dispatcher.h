// Carries "this stream has something to read" from the engine thread to the readers (edge.1).
#ifndef OCTAVO_SCHEDULER_ENGINE_DISPATCHER_H_
#define OCTAVO_SCHEDULER_ENGINE_DISPATCHER_H_

#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "scheduler/engine/token_stream.h"

namespace octavo {

// Owns one thread. A stream is queued at most once, so the queue is bounded by the live streams.
class Dispatcher {
 public:
  Dispatcher();
  ~Dispatcher();  // Stop
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  // Thread-safe.
  void Post(std::shared_ptr<TokenStream> stream);
  // Notifies what is queued, then ends the thread.
  void Stop();

 private:
  void Run();
  bool Due() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || !queued_.empty(); }

  absl::Mutex mutex_;
  std::vector<std::shared_ptr<TokenStream>> queued_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_ENGINE_DISPATCHER_H_
