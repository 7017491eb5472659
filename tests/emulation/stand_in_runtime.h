// The part of the CUDA runtime that a worker uses, on the CPU: linked in place of libcudart. The
// toolkit's headers check the signatures. Calls may come from any thread; one lock serialises them,
// and work runs inside the call that makes it run.
//
// Work of a stream runs as late as is legal (at a synchronisation, other streams only as far as
// events demand), at once, or now this, now that, by Options::seed and eager_streams: an order that
// the program does not enforce is one that some seed does not follow.
#ifndef OCTAVO_TESTS_EMULATION_STAND_IN_RUNTIME_H_
#define OCTAVO_TESTS_EMULATION_STAND_IN_RUNTIME_H_

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/emulation/stream_clock.h"
#include "tests/emulation/stream_order.h"

namespace octavo::emulation {

// What a stream holds. `moment`: of work that touches memory.
struct Work {
  std::function<void()> run;
  std::optional<Moment> moment;
};

// An operation of a graph. Its moment is that of a branch, a stream of the capture: counted from
// the graph's launch, and 0 is the branch of the stream that the graph is launched on.
struct RecordedOperation {
  std::shared_ptr<const Operation> operation;
  Moment moment;
};
struct Recording {
  std::vector<RecordedOperation> operations;
  std::vector<uint32_t> ticks;  // [branch]: operations
};
struct Capture {
  Recording recording;
  bool active = true;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id owner;
};
// One record of an event.
struct EventMark {
  cudaStream_t stream;
  Moment moment;  // what it follows, of the stream or of the capture's branch
  bool done = false;
  std::chrono::steady_clock::time_point time;
};

}  // namespace octavo::emulation

// The runtime's opaque types.
struct CUstream_st {
  std::deque<octavo::emulation::Work> queue;
  octavo::emulation::StreamClock clock;
  std::shared_ptr<octavo::emulation::Capture> capture;
  octavo::emulation::StreamClock branch;  // in a capture
  bool busy = false;                      // its front work runs
  bool blocking = true;
};
struct CUevent_st {
  std::shared_ptr<octavo::emulation::EventMark> mark;
  std::shared_ptr<octavo::emulation::Capture> capture;
};
struct CUgraph_st {
  std::shared_ptr<const octavo::emulation::Recording> recording;
};
struct CUgraphExec_st {
  std::shared_ptr<const octavo::emulation::Recording> recording;
  std::vector<octavo::emulation::StreamClock> branches;  // [branch - 1]
  int64_t held_bytes = 0;
};

namespace octavo::emulation {

// Device memory that the real libraries take without being asked for it, here as a test wants it.
struct HiddenMemory {
  int64_t graph_bytes = 0;    // of each instantiated graph
  int64_t library_bytes = 0;  // from the first product on
};
HiddenMemory& GetHiddenMemory();

// REQUIRES in all members: the lock is held.
class StandInRuntime {
 public:
  static StandInRuntime& Get();
  std::recursive_mutex& lock() { return lock_; }

  CUstream_st* Resolve(cudaStream_t stream);
  cudaStream_t AddStream(bool blocking);
  void RemoveStream(cudaStream_t stream);
  cudaError_t Enqueue(cudaStream_t stream, Operation operation);
  // What only orders: it touches no memory.
  cudaError_t EnqueueMark(CUstream_st* stream, std::function<void()> run);
  cudaError_t Launch(CUgraphExec_st* graph, CUstream_st* stream);
  void Step(CUstream_st* stream);  // runs its front work, if any and if it is not at it already
  void Drain(CUstream_st* stream);
  void DrainBlocking();  // what the legacy default stream waits for
  void DrainAll();
  void WaitFor(const EventMark& mark);
  void Leave(const std::shared_ptr<Capture>& capture);  // all streams that are in it
  // Whether a call that may synchronise is forbidden in this thread now.
  bool Capturing() const;

  StreamOrder& order() { return order_; }
  // The host has waited for all that was submitted, there or everywhere.
  void HostWaitsFor(CUstream_st* stream) { order_.HostWaitsFor(stream->clock.now()); }
  void HostWaitsForAll();
  // The legacy stream follows all blocking streams, or they follow it.
  void OrderLegacy(bool after);

  void SetError(const std::string& message);
  cudaError_t error() const { return error_; }
  const std::string& message() const { return message_; }
  std::string TakeError();

  // ---- Memory
  cudaError_t Allocate(void** out, size_t bytes);
  cudaError_t Free(void* address);
  bool OnDevice(const void* address) const;
  bool InAllocation(const void* address, size_t bytes) const;
  bool Pinned(const void* address, size_t bytes) const;
  void AddPinned(const void* address, size_t bytes);
  bool RemovePinned(const void* address);
  // Memory without an address. False: there is not as much.
  bool Hold(int64_t bytes);
  void Drop(int64_t bytes) { device_bytes_used_ -= static_cast<size_t>(bytes); }
  // Of the allocation that begins there; 0: none does.
  size_t AllocationBytes(const void* address) const;
  size_t device_bytes_used() const { return device_bytes_used_; }

 private:
  StandInRuntime();
  cudaError_t Push(CUstream_st* stream, Work work);
  void VisitPending(const std::function<void(const Moment&)>& visit) const;
  bool Chance(uint64_t one_in);
  void RunSomeOther(const CUstream_st* except);

  std::recursive_mutex lock_;
  StreamOrder order_;
  CUstream_st legacy_;
  std::vector<CUstream_st*> streams_;  // in order of creation
  uint64_t random_ = 0;
  cudaError_t error_ = cudaSuccess;  // sticky
  std::string message_;

  char* address_space_ = nullptr;
  size_t next_offset_ = 0;
  size_t device_bytes_used_ = 0;
  std::map<uintptr_t, size_t> allocations_, pinned_;  // start: bytes
};

// As Submit of emulation.h, of an operation whose accesses are known.
cudaError_t Submit(cudaStream_t stream, Operation operation);

}  // namespace octavo::emulation

#endif  // OCTAVO_TESTS_EMULATION_STAND_IN_RUNTIME_H_
