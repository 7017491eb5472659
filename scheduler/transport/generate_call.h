// One request of the public API, from its arrival to its status, for any service that speaks to
// clients in its own way.
#ifndef OCTAVO_SCHEDULER_TRANSPORT_GENERATE_CALL_H_
#define OCTAVO_SCHEDULER_TRANSPORT_GENERATE_CALL_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
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

struct CallOptions {
  absl::Time deadline = absl::InfiniteFuture();  // tells a late call from a cancelled one
};

// A client as a call sees it. One method at a time, with the call's lock held: they must neither
// wait nor call back into the call. Nothing follows Finish, or a Write of the last message.
class MessageSink {
 public:
  virtual ~MessageSink() = default;

  // The queue accepted the request. At most once, before anything else.
  virtual void Admitted() = 0;
  // True: `message` is being written, and stays, until the sink calls OnWritten. False: the sink is
  // done with it already. With `last` the call ends well once it is written, and `message` stays
  // for as long as the call.
  virtual bool Write(v1::GenerateResponse* message, bool last) = 0;
  virtual void Finish(const absl::Status& status) = 0;
};

// Threads: tokenising on the task pool, decoding on the dispatcher's, the rest on those of the
// sink. A write is in progress at most once; what arrives meanwhile is decoded at once, and goes
// into the next message. Others than the sink hold the call by weak pointers.
class GenerateCall : public std::enable_shared_from_this<GenerateCall> {
 public:
  // `request` lives until the call has ended, `sink` until what ended it has returned.
  static std::shared_ptr<GenerateCall> Start(const GenerateContext& context,
                                             const v1::GenerateRequest* request,
                                             const CallOptions& options, MessageSink* sink);

  // Of the sink. After a write that was not the last one; !ok: the client is gone.
  void OnWritten(bool ok);
  void OnCancelled();

  // Ends the request; its last messages say FINISH_REASON_ABORT. Any thread.
  void Abort();

 private:
  GenerateCall(const GenerateContext& context, const v1::GenerateRequest* request,
               const CallOptions& options, MessageSink* sink);

  void Prepare();  // on the task pool
  void OnEvents();
  void TakeEvents() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Writes the next message, or ends the call, unless a write is in progress.
  void Pump() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Before the client can see the end, so that it never finds an ended request.
  void Unregister() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void End(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndCancelled() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const GenerateContext context_;
  const v1::GenerateRequest* const request_;
  const CallOptions options_;
  MessageSink* const sink_;
  const std::string request_id_;

  absl::Mutex mutex_;
  std::optional<RequestId> id_ ABSL_GUARDED_BY(mutex_);  // once the engine has it
  std::shared_ptr<TokenStream> stream_ ABSL_GUARDED_BY(mutex_);
  std::optional<AnswerWriter> writer_ ABSL_GUARDED_BY(mutex_);
  std::deque<v1::GenerateResponse> messages_ ABSL_GUARDED_BY(mutex_);  // to be written next
  v1::GenerateResponse message_;                                       // being written
  // Nothing comes after `messages_`; an error: nor do they.
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
  bool registered_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool aborted_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_TRANSPORT_GENERATE_CALL_H_
