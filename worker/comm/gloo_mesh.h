// Connections from one rank to every other, and messages over them with a deadline.
#ifndef OCTAVO_WORKER_COMM_GLOO_MESH_H_
#define OCTAVO_WORKER_COMM_GLOO_MESH_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "worker/comm/communicator.h"

namespace octavo {

// A message of one round: to or from `peer`.
struct MeshMessage {
  int32_t peer = 0;
  void* data = nullptr;
  int64_t bytes = 0;
};

// One thread calls everything but Abort. Gloo's exceptions end here.
class GlooMesh {
 public:
  // Is told, on a thread of the mesh, the error that names a rank whose connection has ended.
  using LossSink = std::function<void(const absl::Status&)>;

  // Listens for the other ranks. INVALID_ARGUMENT naming the interface.
  static absl::StatusOr<std::unique_ptr<GlooMesh>> Listen(const CommunicatorOptions& options);
  ~GlooMesh();
  GlooMesh(const GlooMesh&) = delete;
  GlooMesh& operator=(const GlooMesh&) = delete;

  const std::string& address() const { return address_; }
  GroupPlace place() const { return options_.place; }
  // Connects to every other rank. INVALID_ARGUMENT for addresses that are none; UNAVAILABLE or
  // DEADLINE_EXCEEDED naming the rank. `sink`, if any, hears of the first rank lost from then on,
  // also between rounds.
  absl::Status Connect(const std::vector<std::string>& addresses, LossSink sink = nullptr);

  // One round: sends and receives at once, and returns when all are done, within the timeout and by
  // `latest`. Every rank takes part in every round, perhaps with nothing to say. Sources must not
  // change meanwhile.
  absl::Status Exchange(const std::vector<MeshMessage>& sends,
                        const std::vector<MeshMessage>& receives,
                        absl::Time latest = absl::InfiniteFuture());
  // Thread-safe: the round in progress and all after it return `reason`.
  void Abort(const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Links;  // Gloo's objects
  struct Transfer;
  struct Watch;

  explicit GlooMesh(const CommunicatorOptions& options);
  absl::Status Wait(Transfer& transfer, absl::Time deadline);
  // Notices the end of every peer, on a thread each. Gloo tells those who wait for messages that
  // have not begun, but not who waits for the rest of one: that would wait for the whole timeout.
  void StartWatches();
  void RunWatch(Watch& watch);
  void AbortWait() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Remembers the first error.
  absl::Status Fail(const absl::Status& status);
  absl::Status LostRank(int32_t peer, absl::Time deadline, const char* what) const;

  const CommunicatorOptions options_;
  std::unique_ptr<Links> links_;
  LossSink sink_;
  std::vector<std::unique_ptr<Watch>> watches_;
  std::string address_;
  uint64_t round_ = 0;
  absl::Mutex mutex_;
  Transfer* waiting_ ABSL_GUARDED_BY(mutex_) = nullptr;
  absl::Time deadline_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();  // of the wait
  absl::Status failed_ ABSL_GUARDED_BY(mutex_);
  absl::Status lost_ ABSL_GUARDED_BY(mutex_);  // what a watch has seen
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace octavo

#endif  // OCTAVO_WORKER_COMM_GLOO_MESH_H_
