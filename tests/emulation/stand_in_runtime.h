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
#include <string>
#include <thread>
#include <vector>

namespace octavo::emulation {

using Work = std::function<void()>;

struct Capture {
  std::vector<Work> works;
  bool active = true;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id owner;
};
// One record of an event.
struct EventMark {
  cudaStream_t stream;
  bool done = false;
  std::chrono::steady_clock::time_point time;
};

}  // namespace octavo::emulation

// The runtime's opaque types.
struct CUstream_st {
  std::deque<octavo::emulation::Work> queue;
  std::shared_ptr<octavo::emulation::Capture> capture;
  bool busy = false;  // its front work runs
  bool blocking = true;
};
struct CUevent_st {
  std::shared_ptr<octavo::emulation::EventMark> mark;
  std::shared_ptr<octavo::emulation::Capture> capture;
};
struct CUgraph_st {
  std::shared_ptr<const std::vector<octavo::emulation::Work>> works;
};
struct CUgraphExec_st {
  std::shared_ptr<const std::vector<octavo::emulation::Work>> works;
};

namespace octavo::emulation {

// REQUIRES in all members: the lock is held.
class StandInRuntime {
 public:
  static StandInRuntime& Get();
  std::recursive_mutex& lock() { return lock_; }

  CUstream_st* Resolve(cudaStream_t stream);
  cudaStream_t AddStream(bool blocking);
  void RemoveStream(cudaStream_t stream);
  cudaError_t Enqueue(cudaStream_t stream, Work work);
  void Step(CUstream_st* stream);  // runs its front work, if any and if it is not at it already
  void Drain(CUstream_st* stream);
  void DrainBlocking();  // what the legacy default stream waits for
  void DrainAll();
  void WaitFor(const EventMark& mark);
  void Leave(const std::shared_ptr<Capture>& capture);  // all streams that are in it
  // Whether a call that may synchronise is forbidden in this thread now.
  bool Capturing() const;

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
  size_t device_bytes_used() const { return device_bytes_used_; }

 private:
  StandInRuntime() = default;
  bool Chance(uint64_t one_in);
  void RunSomeOther(const CUstream_st* except);

  std::recursive_mutex lock_;
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

}  // namespace octavo::emulation

#endif  // OCTAVO_TESTS_EMULATION_STAND_IN_RUNTIME_H_
