#include "worker/comm/nccl_handle.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/check.h"
#include "common/log.h"
#include "common/status_macros.h"

namespace octavo {
namespace {

// A communicator takes a second to found, and its first collective some ten milliseconds; all later
// ones are taken at once.
constexpr absl::Duration kSettlePause = absl::Microseconds(200);
// What whoever knows a name has, beyond the timeout, before the clock alone decides.
constexpr absl::Duration kMargin = absl::Seconds(1);
// A call that is inside NCCL for longer waits for room in a stream's queue, which abort makes.
constexpr absl::Duration kCallGrace = absl::Milliseconds(200);
// NCCL says that a rank is gone, the connection says which, and may need a moment longer.
constexpr absl::Duration kNameGrace = absl::Seconds(1);

ncclResult_t AsyncState(ncclComm_t comm) {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = ncclCommGetAsyncError(comm, &state);
  return asked == ncclSuccess ? state : asked;
}

// Not ncclCommDestroy, which waits for the other ranks.
void Abort(ncclComm_t comm) {
  if (comm == nullptr) return;
  const ncclResult_t result = ncclCommAbort(comm);
  if (result == ncclSuccess || result == ncclInProgress) return;
  OCTAVO_LOG(kWarning, ToStatus(result, "ncclCommAbort").message());
}

}  // namespace

absl::Status ToStatus(ncclResult_t result, absl::string_view what) {
  if (result == ncclSuccess) return absl::OkStatus();
  const std::string message = absl::StrCat(what, ": ", ncclGetErrorString(result), " (NCCL result ",
                                           static_cast<int>(result), ")");
  switch (result) {
    case ncclRemoteError:
    case ncclSystemError:
      return absl::UnavailableError(absl::StrCat(message, "; another rank may be gone"));
    case ncclInvalidArgument:
    case ncclInvalidUsage:
      return absl::InvalidArgumentError(message);
    default:
      return absl::InternalError(message);
  }
}

absl::Status ToStatus(cudaError_t error, absl::string_view what) {
  if (error == cudaSuccess) return absl::OkStatus();
  const std::string message = absl::StrCat(what, ": ", cudaGetErrorString(error), " (CUDA error ",
                                           static_cast<int>(error), ")");
  if (error == cudaErrorMemoryAllocation) return absl::ResourceExhaustedError(message);
  return absl::InternalError(message);
}

NcclHandle::NcclHandle(const GroupPlace& place, absl::Duration timeout)
    : place_(place), timeout_(timeout) {
  OCTAVO_CHECK(cudaGetDevice(&device_) == cudaSuccess);
  watcher_ = std::thread([this] { Watch(); });
}

NcclHandle::~NcclHandle() {
  {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
  }
  watcher_.join();
  absl::MutexLock lock(&mutex_);
  Abort(comm_);  // that was founded too late for the watcher
}

void NcclHandle::Watch() {
  cudaSetDevice(device_);
  ncclComm_t comm = nullptr;
  {
    absl::MutexLock lock(&mutex_);
    while (!closing_ && ended_.ok()) {
      const absl::Time seen = deadline_;
      const auto changed = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return closing_ || !ended_.ok() || deadline_ != seen;
      };
      if (mutex_.AwaitWithDeadline(absl::Condition(&changed), seen + kMargin)) continue;
      overdue_ = true;
      ended_ = absl::DeadlineExceededError(absl::StrCat("a collective of ", place_.size,
                                                        " ranks has not ended within ",
                                                        absl::FormatDuration(timeout_)));
    }
    const auto idle = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !calling_; };
    mutex_.AwaitWithTimeout(absl::Condition(&idle), kCallGrace);
    comm = std::exchange(comm_, nullptr);
  }
  Abort(comm);
}

absl::Status NcclHandle::Guarded(absl::FunctionRef<ncclResult_t(ncclComm_t)> call,
                                 ncclResult_t* result) {
  ncclComm_t comm = nullptr;
  {
    absl::MutexLock lock(&mutex_);
    OCTAVO_RETURN_IF_ERROR(ended_);
    calling_ = true;
    comm = comm_;
  }
  *result = call(comm);
  absl::MutexLock lock(&mutex_);
  calling_ = false;
  return ended_;
}

absl::Status NcclHandle::Found(const ncclUniqueId& id) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclResult_t result = ncclSuccess;
  ncclComm_t founded = nullptr;
  absl::Status status = Guarded(
      [&](ncclComm_t) {
        const ncclResult_t begun =
            ncclCommInitRankConfig(&founded, place_.size, id, place_.rank, &config);
        absl::MutexLock lock(&mutex_);
        comm_ = founded;
        return begun;
      },
      &result);
  OCTAVO_RETURN_IF_ERROR(status);
  return Settle("ncclCommInitRankConfig", result);
}

absl::Status NcclHandle::Call(absl::string_view what,
                              absl::FunctionRef<ncclResult_t(ncclComm_t)> call) {
  ncclResult_t result = ncclSuccess;
  OCTAVO_RETURN_IF_ERROR(Guarded(call, &result));
  return Settle(what, result);
}

absl::Status NcclHandle::status() const {
  absl::MutexLock lock(&mutex_);
  return ended_;
}

absl::Status NcclHandle::Check() { return Call("a collective", AsyncState); }

absl::Status NcclHandle::Settle(absl::string_view what, ncclResult_t result) {
  while (result == ncclInProgress) {  // until the watcher ends it at the latest
    absl::SleepFor(kSettlePause);
    OCTAVO_RETURN_IF_ERROR(Guarded(AsyncState, &result));
  }
  return result == ncclSuccess ? absl::OkStatus() : FailNccl(what, result);
}

absl::Status NcclHandle::FailNccl(absl::string_view what, ncclResult_t result) {
  if (result == ncclRemoteError || result == ncclSystemError) {
    absl::MutexLock lock(&mutex_);
    const auto named = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !ended_.ok(); };
    if (mutex_.AwaitWithTimeout(absl::Condition(&named), kNameGrace)) return ended_;
  }
  return Fail(ToStatus(result, what));
}

absl::Time NcclHandle::Begin() {
  absl::MutexLock lock(&mutex_);
  if (deadline_ == absl::InfiniteFuture()) deadline_ = absl::Now() + timeout_;
  return deadline_;
}

void NcclHandle::End() {
  absl::MutexLock lock(&mutex_);
  deadline_ = absl::InfiniteFuture();
}

absl::Status NcclHandle::Fail(const absl::Status& error) {
  OCTAVO_CHECK(!error.ok());
  absl::MutexLock lock(&mutex_);
  if (ended_.ok()) ended_ = error;
  return ended_;
}

bool NcclHandle::overdue() const {
  absl::MutexLock lock(&mutex_);
  return overdue_;
}

absl::Status NcclHandle::Name(const absl::Status& error) {
  absl::MutexLock lock(&mutex_);
  if (std::exchange(overdue_, false)) ended_ = error;
  return ended_;
}

}  // namespace octavo
