#include "scheduler/transport/request_registry.h"

#include <utility>

namespace octavo {

bool RequestRegistry::Add(const std::string& id, std::function<void()> abort) {
  absl::MutexLock lock(&mutex_);
  return aborts_.emplace(id, std::move(abort)).second;
}

void RequestRegistry::Remove(const std::string& id) {
  absl::MutexLock lock(&mutex_);
  aborts_.erase(id);
}

bool RequestRegistry::Abort(const std::string& id) {
  std::function<void()> abort;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = aborts_.find(id);
    if (found == aborts_.end()) return false;
    abort = found->second;
  }
  abort();
  return true;
}

}  // namespace octavo
