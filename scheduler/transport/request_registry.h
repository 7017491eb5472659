// The request ids that clients chose, of requests that have not ended.
#ifndef OCTAVO_SCHEDULER_TRANSPORT_REQUEST_REGISTRY_H_
#define OCTAVO_SCHEDULER_TRANSPORT_REQUEST_REGISTRY_H_

#include <functional>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "common/ids.h"

namespace octavo {

// Thread-safe.
class RequestRegistry {
 public:
  // False when the id is in use. `abort` ends the request; it must not call the registry.
  bool Add(const std::string& id, std::function<void()> abort);
  // The engine has accepted it under this id.
  void Bind(const std::string& id, RequestId engine_id);
  void Remove(const std::string& id);
  // Between the client's name and the engine's; nullopt and empty for those that have ended.
  std::optional<RequestId> Find(const std::string& id) const;
  std::string NameOf(RequestId engine_id) const;
  // Calls the request's `abort`. False when there is no such request.
  bool Abort(const std::string& id);

 private:
  struct Entry {
    std::function<void()> abort;
    std::optional<RequestId> engine_id;
  };

  mutable absl::Mutex mutex_;
  absl::flat_hash_map<std::string, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<RequestId, std::string> names_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_TRANSPORT_REQUEST_REGISTRY_H_
