#include "worker/runtime/device_thread.h"

#include <optional>

#include "absl/synchronization/notification.h"

namespace octavo {
namespace {

// Two steps in flight, and a caller or two who configure or reset.
constexpr size_t kQueueCapacity = 16;

}  // namespace

DeviceThread::DeviceThread() : queue_(kQueueCapacity), thread_([this] { Loop(); }) {}

DeviceThread::~DeviceThread() {
  queue_.Close();
  thread_.join();
}

void DeviceThread::Run(absl::FunctionRef<void()> task) {
  absl::Notification done;
  Post([&] {
    task();
    done.Notify();
  });
  done.WaitForNotification();
}

void DeviceThread::Loop() {
  while (std::optional<std::function<void()>> task = queue_.Pop()) (*task)();
}

}  // namespace octavo
