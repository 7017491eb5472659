// Times of launches, taken on the device: events around replays of a recorded graph, so that the
// host's launches do not count.
#ifndef OCTAVO_TESTS_BENCH_CUDA_DEVICE_TIMING_H_
#define OCTAVO_TESTS_BENCH_CUDA_DEVICE_TIMING_H_

#include <cuda_runtime_api.h>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/bench/cuda/report.h"

namespace octavo::bench {

struct TimingPlan {
  int calls = 10;             // recorded in one graph, one after the other
  int replays = 15;           // each is one sample: its time / calls
  double warm_seconds = 0.1;  // of replays before that: clocks rise under load
};

// An event that can be timed, destroyed with its owner.
class TimedEvent {
 public:
  TimedEvent() = default;
  ~TimedEvent() {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }
  TimedEvent(const TimedEvent&) = delete;
  TimedEvent& operator=(const TimedEvent&) = delete;
  absl::Status Create();
  absl::Status Record(cudaStream_t stream);
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

// Waits for `to`.
absl::StatusOr<double> SecondsBetween(const TimedEvent& from, const TimedEvent& to);

// `launch` is called with the call's number, so that calls can take turns over data that no cache
// holds from the call before. It launches on `stream`, in this thread, and does not wait. All calls
// are made once, and waited for, before the recording.
absl::StatusOr<Timing> TimeCalls(cudaStream_t stream, const TimingPlan& plan,
                                 absl::FunctionRef<absl::Status(int call)> launch);

}  // namespace octavo::bench

#endif  // OCTAVO_TESTS_BENCH_CUDA_DEVICE_TIMING_H_
