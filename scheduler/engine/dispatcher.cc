#include "scheduler/engine/dispatcher.h"

#include <utility>

namespace octavo {

Dispatcher::Dispatcher() : thread_([this] { Run(); }) {}

Dispatcher::~Dispatcher() { Stop(); }

void Dispatcher::Post(std::shared_ptr<TokenStream> stream) {
  if (!stream->MarkQueued()) return;
  absl::MutexLock lock(&mutex_);
  queued_.push_back(std::move(stream));
}

void Dispatcher::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

void Dispatcher::Run() {
  std::vector<std::shared_ptr<TokenStream>> due;
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &Dispatcher::Due));
      if (queued_.empty()) return;
      due.swap(queued_);
    }
    for (const auto& stream : due) stream->Notify();
    due.clear();
  }
}

}  // namespace octavo
