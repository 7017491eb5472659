// The part of NCCL that a worker uses, for ranks in processes of their own, linked in place of
// libnccl. As there: collectives take their place in a stream, wait for the other ranks without an
// end, also for those that have died, and end by ncclCommAbort alone; the first one connects and is
// in progress for a while; a sum has the same bits on all ranks, but each part of it is added in an
// order of its own, as around a ring. Calls that differ between ranks are an error, where NCCL's
// behaviour is undefined. Streams with collectives in them also go on while their host waits for
// something else, such as a message of another rank that waits for this one's collective.
#include <nccl.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/emulation/emulation.h"
#include "tests/emulation/nccl_channels.h"
#include "tests/emulation/stand_in_runtime.h"

namespace octavo::emulation {
namespace {

// What every rank says of a call before its data.
struct Announcement {
  int64_t kind = 0;
  uint64_t bytes = 0;
  bool operator==(const Announcement&) const = default;
};
enum Kind : int64_t { kAllReduce = 1, kPointToPoint };

constexpr auto kHostPause = std::chrono::milliseconds(2);  // before a device goes on by itself

// Shared by a communicator and its queued work, which may outlive it.
struct Group {
  std::unique_ptr<NcclChannels> channels;
  std::atomic<bool> aborted = false;
  std::atomic<int> queued = 0;
  std::atomic<int> running = 0;
  std::atomic<cudaStream_t> stream = nullptr;  // of the last call
  bool connected = false;                      // the first collective has been called
  bool in_progress = false;                    // and not been asked for since
};

class Running {
 public:
  explicit Running(Group& group) : group_(group) { ++group_.running; }
  ~Running() { --group_.running; }

 private:
  Group& group_;
};

void CheckMemory(const void* data, size_t bytes, const char* what) {
  if (!StandInRuntime::Get().InAllocation(data, bytes))
    throw Error(std::string(what) + ": " + std::to_string(bytes) +
                " bytes are not inside one device allocation");
}

// False after an abort.
bool Run(Group& group, std::vector<Transfer> transfers) {
  return group.channels->Run(transfers, [&] { return group.aborted.load(); });
}

// Never comes back by itself, as a kernel that has lost a peer.
void HangIfPlanted(Group& group) {
  while (IsPlanted("hung_collective") && !group.aborted)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void AllReduce(Group& group, float* data, size_t count) {
  const Running running(group);
  HangIfPlanted(group);
  const auto rank = static_cast<size_t>(group.channels->rank());
  const auto size = static_cast<size_t>(group.channels->size());
  const size_t bytes = count * sizeof(float);
  CheckMemory(data, bytes, "ncclAllReduce");
  const Announcement own = {kAllReduce, bytes};
  std::vector<Announcement> theirs(size);
  std::vector<std::vector<float>> parts(size, std::vector<float>(count));
  parts[rank].assign(data, data + count);
  std::vector<Transfer> heads, bodies;
  for (size_t peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    const int to = static_cast<int>(peer);
    heads.push_back({to, reinterpret_cast<const char*>(&own), nullptr, sizeof own});
    heads.push_back({to, nullptr, reinterpret_cast<char*>(&theirs[peer]), sizeof own});
    bodies.push_back({to, reinterpret_cast<const char*>(parts[rank].data()), nullptr, bytes});
    bodies.push_back({to, nullptr, reinterpret_cast<char*>(parts[peer].data()), bytes});
  }
  if (!Run(group, heads)) return;
  for (size_t peer = 0; peer < size; ++peer)
    if (peer != rank && !(theirs[peer] == own))
      throw Error("ncclAllReduce: rank " + std::to_string(peer) + " calls something else");
  if (!Run(group, bodies)) return;
  for (size_t i = 0; i < count; ++i) {
    const size_t last = i * size / count;  // whose part of the ring it is
    float sum = parts[(last + 1) % size][i];
    for (size_t hop = 2; hop <= size; ++hop) sum += parts[(last + hop) % size][i];
    data[i] = sum;
  }
}

// Sends and receives of one group of calls: all at once.
void PointToPoint(Group& group, const std::vector<Transfer>& transfers) {
  const Running running(group);
  HangIfPlanted(group);
  std::vector<Announcement> said(transfers.size());
  std::vector<Transfer> heads;
  for (size_t i = 0; i < transfers.size(); ++i) {
    const Transfer& body = transfers[i];
    const bool sends = body.from != nullptr;
    CheckMemory(sends ? body.from : body.to, body.bytes, sends ? "ncclSend" : "ncclRecv");
    if (sends) said[i] = {kPointToPoint, body.bytes};
    auto* bytes = reinterpret_cast<char*>(&said[i]);
    heads.push_back({body.peer, sends ? bytes : nullptr, sends ? nullptr : bytes, sizeof said[i]});
  }
  if (!Run(group, heads)) return;
  for (size_t i = 0; i < transfers.size(); ++i)
    if (!(said[i] == Announcement{kPointToPoint, transfers[i].bytes}))
      throw Error("ncclRecv: rank " + std::to_string(transfers[i].peer) + " sends something else");
  Run(group, transfers);
}

// Calls between ncclGroupStart and ncclGroupEnd of a thread; of one communicator and stream.
struct OpenGroup {
  int depth = 0;
  std::shared_ptr<Group> group;
  cudaStream_t stream = nullptr;
  std::vector<Transfer> transfers;
};
thread_local OpenGroup open_group;

// Until the abort.
void GoOn(const std::shared_ptr<Group>& group) {
  StandInRuntime& runtime = StandInRuntime::Get();
  while (!group->aborted) {
    std::this_thread::sleep_for(kHostPause);
    while (group->queued > 0 && !group->aborted) {
      const std::lock_guard lock(runtime.lock());
      CUstream_st* const stream = runtime.Resolve(group->stream);
      if (stream->queue.empty()) break;
      runtime.Step(stream);
    }
  }
}

ncclResult_t Queue(const std::shared_ptr<Group>& group, cudaStream_t stream, Operation operation) {
  group->stream = stream;
  ++group->queued;
  operation.run = [group, run = std::move(operation.run)] {
    --group->queued;
    run();
  };
  const cudaError_t error = Submit(stream, std::move(operation));
  if (error != cudaSuccess) return ncclUnhandledCudaError;
  if (group->connected) return ncclSuccess;
  group->connected = group->in_progress = true;
  return ncclInProgress;
}

ncclResult_t Flush() {
  OpenGroup calls;
  std::swap(calls, open_group);
  if (calls.transfers.empty()) return ncclSuccess;
  const std::shared_ptr<Group> group = calls.group;
  Operation operation;
  operation.name = "ncclSend and ncclRecv";
  for (const Transfer& transfer : calls.transfers) {
    const bool sends = transfer.from != nullptr;
    (sends ? operation.reads : operation.writes)
        .push_back(RangeOf(sends ? transfer.from : transfer.to, transfer.bytes));
  }
  operation.run = [group, transfers = std::move(calls.transfers)] {
    PointToPoint(*group, transfers);
  };
  return Queue(group, calls.stream, std::move(operation));
}

}  // namespace
}  // namespace octavo::emulation

using octavo::emulation::Group;
using octavo::emulation::GroupName;
using octavo::emulation::NcclChannels;
using octavo::emulation::open_group;
using octavo::emulation::Transfer;

struct ncclComm {
  std::shared_ptr<Group> group;
  std::thread device;
};

namespace {

// Before its turn a communicator takes no call.
bool Ready(ncclComm_t comm) {
  return comm->group->channels->AllJoined() && !comm->group->in_progress;
}

ncclResult_t AddTransfer(ncclComm_t comm, const Transfer& transfer, ncclDataType_t type,
                         cudaStream_t stream) {
  if (type != ncclFloat || transfer.peer < 0 || transfer.peer >= comm->group->channels->size() ||
      transfer.peer == comm->group->channels->rank())
    return ncclInvalidArgument;
  const bool alone = open_group.depth == 0;
  if (!Ready(comm) ||
      (open_group.group && (open_group.group != comm->group || open_group.stream != stream)))
    return ncclInvalidUsage;
  open_group.group = comm->group;
  open_group.stream = stream;
  open_group.transfers.push_back(transfer);
  return alone ? octavo::emulation::Flush() : ncclSuccess;
}

}  // namespace

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  GroupName name;
  if (!NcclChannels::MakeGroup(&name)) return ncclSystemError;
  static_assert(sizeof name <= sizeof *id);
  std::memcpy(id, &name, sizeof name);
  return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (config->blocking != 0) return ncclInvalidUsage;  // nothing here would end a wait
  GroupName name;
  std::memcpy(static_cast<void*>(&name), &id, sizeof name);
  auto group = std::make_shared<Group>();
  group->channels = NcclChannels::Open(name, rank, ranks);
  if (!group->channels) return ncclInvalidArgument;
  *comm = new ncclComm{group, std::thread([group] { octavo::emulation::GoOn(group); })};
  return ncclInProgress;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  *state = Ready(comm) ? ncclSuccess : ncclInProgress;
  comm->group->in_progress = false;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->group->aborted = true;
  while (comm->group->running > 0) std::this_thread::yield();
  comm->device.join();
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  if (from != to || type != ncclFloat || op != ncclSum) return ncclInvalidArgument;
  if (!Ready(comm) || open_group.depth != 0) return ncclInvalidUsage;
  const std::shared_ptr<Group> group = comm->group;
  octavo::emulation::Operation operation;
  operation.name = "ncclAllReduce";
  operation.run = [group, to, count] {
    octavo::emulation::AllReduce(*group, static_cast<float*>(to), count);
  };
  operation.writes = {octavo::emulation::RangeOf(to, count * sizeof(float))};
  return octavo::emulation::Queue(group, stream, std::move(operation));
}
ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return AddTransfer(comm, {peer, static_cast<const char*>(from), nullptr, count * sizeof(float)},
                     type, stream);
}
ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return AddTransfer(comm, {peer, nullptr, static_cast<char*>(to), count * sizeof(float)}, type,
                     stream);
}
ncclResult_t ncclGroupStart() {
  ++open_group.depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (open_group.depth == 0) return ncclInvalidUsage;
  return --open_group.depth == 0 ? octavo::emulation::Flush() : ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled CUDA error";
    case ncclSystemError:
      return "system error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclInProgress:
      return "in progress";
    default:
      return "internal error";
  }
}

}  // extern "C"
