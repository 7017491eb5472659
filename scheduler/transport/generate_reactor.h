// One Generate call, from its arrival to its status.
#ifndef OCTAVO_SCHEDULER_TRANSPORT_GENERATE_REACTOR_H_
#define OCTAVO_SCHEDULER_TRANSPORT_GENERATE_REACTOR_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/grpcpp.h"
#include "octavo/v1/generation.pb.h"
#include "scheduler/engine/engine_loop.h"
#include "scheduler/engine/token_stream.h"
#include "scheduler/transport/answer_writer.h"
#include "scheduler/transport/request_registry.h"
#include "scheduler/transport/served_model.h"
#include "scheduler/transport/task_pool.h"

namespace octavo {

// Shared by all calls of a service; outlives them.
struct GenerateContext {
  EngineLoop* engine;
  const ServedModel* model;
  RequestRegistry* registry;
  TaskPool* tasks;
};

// Threads: tokenising on the task pool, events on the dispatcher's, the rest on gRPC's. A write is
// in progress at most once; what arrives meanwhile goes into the next message. Owns itself until
// OnDone; others hold it by weak pointers.
class GenerateReactor : public grpc::ServerWriteReactor<v1::GenerateResponse>,
                        public std::enable_shared_from_this<GenerateReactor> {
 public:
  // Starts the call; gRPC owns what is returned until OnDone. `call` and `request` live that long.
  static GenerateReactor* Start(const GenerateContext& context, grpc::CallbackServerContext* call,
                                const v1::GenerateRequest* request);
  ~GenerateReactor() override;

  // Ends the request; its stream finishes with FINISH_REASON_ABORT. Any thread.
  void AbortRequest();

  // Of gRPC.
  void OnSendInitialMetadataDone(bool) override {}
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  GenerateReactor(const GenerateContext& context, grpc::CallbackServerContext* call,
                  const v1::GenerateRequest* request);

  void Prepare();  // on the task pool
  void OnEvents();
  void Pump() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Before the client can see the end, so that it never finds an ended request.
  void Unregister();
  void End(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndCancelled() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const GenerateContext context_;
  grpc::CallbackServerContext* const call_;
  const v1::GenerateRequest* const request_;
  std::shared_ptr<GenerateReactor> self_;  // until OnDone
  std::string request_id_;
  bool registered_ = false;  // of the task pool's thread, then of the destructor

  absl::Mutex mutex_;
  std::optional<RequestId> id_ ABSL_GUARDED_BY(mutex_);  // once the engine has it
  std::shared_ptr<TokenStream> stream_ ABSL_GUARDED_BY(mutex_);
  std::optional<AnswerWriter> writer_ ABSL_GUARDED_BY(mutex_);
  std::deque<v1::GenerateResponse> messages_ ABSL_GUARDED_BY(mutex_);  // to be written next
  v1::GenerateResponse message_;                                       // being written
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;  // nothing comes after `messages_`
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool aborted_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_TRANSPORT_GENERATE_REACTOR_H_
