#include "scheduler/transport/request_registry.h"

#include <utility>

namespace octavo {

bool RequestRegistry::Add(const std::string& id, std::function<void()> abort) {
  absl::MutexLock lock(&mutex_);
  return entries_.emplace(id, Entry{std::move(abort), std::nullopt}).second;
}

void RequestRegistry::Bind(const std::string& id, RequestId engine_id) {
  absl::MutexLock lock(&mutex_);
  entries_.at(id).engine_id = engine_id;
  names_[engine_id] = id;
}

void RequestRegistry::Remove(const std::string& id) {
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  if (found->second.engine_id.has_value()) names_.erase(*found->second.engine_id);
  entries_.erase(found);
}

std::optional<RequestId> RequestRegistry::Find(const std::string& id) const {
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(id);
  return found == entries_.end() ? std::nullopt : found->second.engine_id;
}

std::string RequestRegistry::NameOf(RequestId engine_id) const {
  absl::MutexLock lock(&mutex_);
  const auto found = names_.find(engine_id);
  return found == names_.end() ? std::string() : found->second;
}

bool RequestRegistry::Abort(const std::string& id) {
  std::function<void()> abort;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = entries_.find(id);
    if (found == entries_.end()) return false;
    abort = found->second.abort;
  }
  abort();
  return true;
}

}  // namespace octavo
