// The streams of requests that have not ended, and when things happened to them.
#ifndef OCTAVO_SCHEDULER_ENGINE_STREAM_TABLE_H_
#define OCTAVO_SCHEDULER_ENGINE_STREAM_TABLE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/ids.h"
#include "scheduler/core/request.h"
#include "scheduler/engine/dispatcher.h"
#include "scheduler/engine/engine_snapshot.h"
#include "scheduler/engine/token_stream.h"

namespace octavo {

// Of the engine thread.
class StreamTable {
 public:
  // Both outlive the table.
  StreamTable(Dispatcher* dispatcher, EngineLatencies* latencies)
      : dispatcher_(dispatcher), latencies_(latencies) {}

  void Admit(RequestId id, std::shared_ptr<TokenStream> stream, absl::Time arrival,
             int32_t choices);
  // Ends a stream that was never admitted.
  void Refuse(const std::shared_ptr<TokenStream>& stream, absl::Status why);

  void Deliver(TokenEvent event, absl::Time now);
  // Counts that the request lost its workers; returns how often in a row without a token between.
  int NoteReset(RequestId id);
  // The request's abort event will end its stream with `why` instead of OK.
  void FailOnAbort(RequestId id, absl::Status why);
  // Ends all streams.
  void EndAll(const absl::Status& why);

  // Has the readers of all streams that changed since the last call told so. Called after the
  // engine's state is published: who saw a stream end also sees it counted.
  void NotifyTouched();

  size_t size() const { return live_.size(); }
  uint64_t ended() const { return ended_; }  // streams, refused ones included

 private:
  struct Live {
    std::shared_ptr<TokenStream> stream;
    StreamTimes times;
    std::vector<absl::Time> last_tokens;  // by choice; InfiniteFuture before its first
    absl::Status failure;
    int resets = 0;  // since the last token
  };

  Dispatcher* dispatcher_;
  EngineLatencies* latencies_;
  absl::flat_hash_map<RequestId, Live> live_;
  std::vector<std::shared_ptr<TokenStream>> touched_;
  uint64_t ended_ = 0;
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_ENGINE_STREAM_TABLE_H_
