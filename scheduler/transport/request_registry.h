// The request ids that clients chose, of requests that have not ended.
#ifndef OCTAVO_SCHEDULER_TRANSPORT_REQUEST_REGISTRY_H_
#define OCTAVO_SCHEDULER_TRANSPORT_REQUEST_REGISTRY_H_

#include <functional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"

namespace octavo {

// Thread-safe.
class RequestRegistry {
 public:
  // False when the id is in use. `abort` ends the request; it must not call the registry.
  bool Add(const std::string& id, std::function<void()> abort);
  void Remove(const std::string& id);
  // Calls the request's `abort`. False when there is no such request.
  bool Abort(const std::string& id);

 private:
  absl::Mutex mutex_;
  absl::flat_hash_map<std::string, std::function<void()>> aborts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_TRANSPORT_REQUEST_REGISTRY_H_
