// A blocking queue with a fixed capacity, shared between threads.
#ifndef OCTAVO_COMMON_BOUNDED_QUEUE_H_
#define OCTAVO_COMMON_BOUNDED_QUEUE_H_

#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace octavo {

// Thread-safe. After Close() nothing is accepted; what is inside can still be popped.
template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(size_t capacity) : capacity_(capacity) {}

  // False when full or closed; `item` is then untouched.
  bool TryPush(T&& item) {
    absl::MutexLock lock(&mutex_);
    if (closed_ || items_.size() >= capacity_) return false;
    items_.push_back(std::move(item));
    return true;
  }

  // Waits for room. False when closed.
  bool Push(T&& item) {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(this, &BoundedQueue::RoomOrClosed));
    if (closed_) return false;
    items_.push_back(std::move(item));
    return true;
  }

  std::optional<T> TryPop() {
    absl::MutexLock lock(&mutex_);
    return PopLocked();
  }

  // Waits for an item. nullopt when closed and empty, or when `timeout` passed.
  std::optional<T> Pop(absl::Duration timeout = absl::InfiniteDuration()) {
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(this, &BoundedQueue::ItemOrClosed), timeout);
    return PopLocked();
  }

  void Close() {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
  }

  size_t size() const {
    absl::MutexLock lock(&mutex_);
    return items_.size();
  }
  size_t capacity() const { return capacity_; }

 private:
  bool RoomOrClosed() const { return closed_ || items_.size() < capacity_; }
  bool ItemOrClosed() const { return closed_ || !items_.empty(); }
  std::optional<T> PopLocked() {
    if (items_.empty()) return std::nullopt;
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    return item;
  }

  const size_t capacity_;
  mutable absl::Mutex mutex_;
  std::deque<T> items_;
  bool closed_ = false;
};

}  // namespace octavo

#endif  // OCTAVO_COMMON_BOUNDED_QUEUE_H_
