// A whole scheduler but for its workers: engine, services, metrics. octavo-scheduler gives it
// remote executors, `octavo serve` one in-process.
#ifndef OCTAVO_SCHEDULER_TRANSPORT_SCHEDULER_SERVER_H_
#define OCTAVO_SCHEDULER_TRANSPORT_SCHEDULER_SERVER_H_

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/executor.h"
#include "common/rpc/server.h"
#include "scheduler/engine/engine_loop.h"
#include "scheduler/transport/admin_service.h"
#include "scheduler/transport/flags.h"
#include "scheduler/transport/generation_service.h"
#include "scheduler/transport/metrics_exporter.h"
#include "scheduler/transport/served_model.h"

namespace octavo {

// Reads configuration and tokenizer of what --model and --load-format name; errors name it.
absl::StatusOr<ServedModel> LoadServedModel(const std::string& model,
                                            const std::string& load_format);

// Thread-safe after Start.
class SchedulerServer {
 public:
  // Listens at once: health says "" SERVING and octavo.v1.Generation NOT_SERVING until the engine
  // is ready. Logs the capacity report when it is. Errors name the flag or the port that is wrong.
  static absl::StatusOr<std::unique_ptr<SchedulerServer>> Start(
      const SchedulerFlags& flags, ServedModel model,
      std::vector<std::unique_ptr<Executor>> executors);
  ~SchedulerServer();  // Stop
  SchedulerServer(const SchedulerServer&) = delete;
  SchedulerServer& operator=(const SchedulerServer&) = delete;

  const std::string& address() const { return rpc_->address(); }
  const std::string& metrics_address() const { return metrics_->address(); }
  const EngineLoop& engine() const { return *engine_; }

  // OK once ready; the reason when the workers can never serve; DEADLINE_EXCEEDED when neither is
  // known after `timeout`.
  absl::Status WaitUntilReady(absl::Duration timeout) const;

  // Not ready any more, and no new requests: UNAVAILABLE. True when the running ones have ended
  // within `timeout`.
  bool Drain(absl::Duration timeout);
  // Ends what runs with UNAVAILABLE, then the listeners. Safe to call twice.
  void Stop();

 private:
  explicit SchedulerServer(ServedModel model) : model_(std::move(model)) {}

  void Watch();

  const ServedModel model_;
  std::unique_ptr<EngineLoop> engine_;
  std::unique_ptr<GenerationService> generation_;
  std::unique_ptr<AdminService> admin_;
  std::unique_ptr<RpcServer> rpc_;
  std::unique_ptr<MetricsExporter> metrics_;

  absl::Mutex mutex_;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread watcher_;  // turns engine states into health
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_TRANSPORT_SCHEDULER_SERVER_H_
