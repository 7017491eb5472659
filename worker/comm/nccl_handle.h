// One NCCL communicator that cannot hang: what it is, who may call it, and what ends it.
#ifndef OCTAVO_WORKER_COMM_NCCL_HANDLE_H_
#define OCTAVO_WORKER_COMM_NCCL_HANDLE_H_

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "worker/backend/split_plan.h"

namespace octavo {

// OK for success; `what` is the call, and comes first in the message.
absl::Status ToStatus(ncclResult_t result, absl::string_view what);
absl::Status ToStatus(cudaError_t error, absl::string_view what);

// NCCL's kernels wait for those of the other ranks without an end, and so does whoever waits for
// them, be it in the driver because a stream's queue is full. So a thread of its own, the watcher,
// calls ncclCommAbort, after which the kernels end: when Fail was called, by whomever, or when what
// Begin began has not reached End within the timeout and a second. The communicator does not block
// (ncclConfig_t::blocking = 0): what NCCL has not finished is asked for again. That costs a thread
// of NCCL's where it connects ranks, in the first collective of a kind, and nothing later.
//
// One thread, the owner, calls everything but Fail. REQUIRES: its card is current when it makes
// one.
class NcclHandle {
 public:
  NcclHandle(const GroupPlace& place, absl::Duration timeout);
  ~NcclHandle();
  NcclHandle(const NcclHandle&) = delete;
  NcclHandle& operator=(const NcclHandle&) = delete;

  // Collective. Once.
  absl::Status Found(const ncclUniqueId& id);
  // Calls NCCL and waits until it has taken the call. The error is what ended the group.
  absl::Status Call(absl::string_view what, absl::FunctionRef<ncclResult_t(ncclComm_t)> call);
  // What has ended the group; Check: also what NCCL noticed after its calls had returned.
  absl::Status status() const;
  absl::Status Check();

  // Starts the clock unless it runs; answers by when all ranks must have taken part.
  absl::Time Begin();
  void End();

  // Thread-safe. The first error ends the group and is what everyone is answered. REQUIRES: an
  // error.
  absl::Status Fail(const absl::Status& error);
  // Whether the clock alone ended the group, so that nobody is named. `Name` gives the error a
  // name.
  bool overdue() const;
  absl::Status Name(const absl::Status& error);

 private:
  void Watch();
  // What has ended the group, before the call or meanwhile.
  absl::Status Guarded(absl::FunctionRef<ncclResult_t(ncclComm_t)> call, ncclResult_t* result);
  absl::Status Settle(absl::string_view what, ncclResult_t result);
  absl::Status FailNccl(absl::string_view what, ncclResult_t result);

  const GroupPlace place_;
  const absl::Duration timeout_;
  int device_ = 0;

  mutable absl::Mutex mutex_;
  ncclComm_t comm_ ABSL_GUARDED_BY(mutex_) = nullptr;  // nullptr before Found and once aborted
  bool calling_ ABSL_GUARDED_BY(mutex_) = false;       // the owner is inside NCCL
  absl::Status ended_ ABSL_GUARDED_BY(mutex_);
  bool overdue_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time deadline_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread watcher_;  // last: it uses what is above
};

}  // namespace octavo

#endif  // OCTAVO_WORKER_COMM_NCCL_HANDLE_H_
