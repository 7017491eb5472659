#include "tests/bench/cuda/device_timing.h"

#include <chrono>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "common/status_macros.h"
#include "worker/cuda/cuda_status.h"

namespace octavo::bench {
namespace {

using Clock = std::chrono::steady_clock;

absl::StatusOr<cudaGraphExec_t> RecordCalls(cudaStream_t stream, int calls,
                                            absl::FunctionRef<absl::Status(int call)> launch) {
  OCTAVO_RETURN_IF_ERROR(cuda::ToStatus(
      cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture"));
  absl::Status launched;
  for (int call = 0; call < calls && launched.ok(); ++call) launched = launch(call);
  cudaGraph_t graph = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
  const absl::Cleanup destroy = [graph] {
    if (graph != nullptr) cudaGraphDestroy(graph);
  };
  OCTAVO_RETURN_IF_ERROR(launched);
  OCTAVO_RETURN_IF_ERROR(cuda::ToStatus(ended, "cudaStreamEndCapture"));
  cudaGraphExec_t executable = nullptr;
  OCTAVO_RETURN_IF_ERROR(
      cuda::ToStatus(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate"));
  return executable;
}

absl::Status Wait(cudaStream_t stream) {
  return cuda::ToStatus(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

}  // namespace

absl::Status TimedEvent::Create() {
  return cuda::ToStatus(cudaEventCreate(&event_), "cudaEventCreate");
}

absl::Status TimedEvent::Record(cudaStream_t stream) {
  return cuda::ToStatus(cudaEventRecord(event_, stream), "cudaEventRecord");
}

absl::StatusOr<double> SecondsBetween(const TimedEvent& from, const TimedEvent& to) {
  OCTAVO_RETURN_IF_ERROR(cuda::ToStatus(cudaEventSynchronize(to.get()), "cudaEventSynchronize"));
  float milliseconds = 0;
  OCTAVO_RETURN_IF_ERROR(cuda::ToStatus(cudaEventElapsedTime(&milliseconds, from.get(), to.get()),
                                        "cudaEventElapsedTime"));
  return double{milliseconds} * 1e-3;
}

absl::StatusOr<Timing> TimeCalls(cudaStream_t stream, const TimingPlan& plan,
                                 absl::FunctionRef<absl::Status(int call)> launch) {
  for (int call = 0; call < plan.calls; ++call) OCTAVO_RETURN_IF_ERROR(launch(call));
  OCTAVO_RETURN_IF_ERROR(Wait(stream));
  OCTAVO_ASSIGN_OR_RETURN(const cudaGraphExec_t graph, RecordCalls(stream, plan.calls, launch));
  const absl::Cleanup destroy = [graph] { cudaGraphExecDestroy(graph); };
  const auto replay = [&] {
    return cuda::ToStatus(cudaGraphLaunch(graph, stream), "cudaGraphLaunch");
  };
  const Clock::time_point warm =
      Clock::now() +
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(plan.warm_seconds));
  do {
    OCTAVO_RETURN_IF_ERROR(replay());
    OCTAVO_RETURN_IF_ERROR(Wait(stream));
  } while (Clock::now() < warm);

  TimedEvent begin, end;
  OCTAVO_RETURN_IF_ERROR(begin.Create());
  OCTAVO_RETURN_IF_ERROR(end.Create());
  std::vector<double> seconds;
  for (int i = 0; i < plan.replays; ++i) {
    OCTAVO_RETURN_IF_ERROR(begin.Record(stream));
    OCTAVO_RETURN_IF_ERROR(replay());
    OCTAVO_RETURN_IF_ERROR(end.Record(stream));
    OCTAVO_ASSIGN_OR_RETURN(const double all, SecondsBetween(begin, end));
    seconds.push_back(all / plan.calls);
  }
  return TimingOf(std::move(seconds));
}

}  // namespace octavo::bench
