// Streams, events, host functions, and graphs that are replayed from what was captured.
#include <utility>

#include "tests/emulation/emulation.h"
#include "tests/emulation/stand_in_runtime.h"

using octavo::emulation::Capture;
using octavo::emulation::EventMark;
using octavo::emulation::IsPlanted;
using octavo::emulation::Recording;
using octavo::emulation::StandInRuntime;
using octavo::emulation::StreamClock;

#define OCTAVO_RUNTIME                             \
  StandInRuntime& runtime = StandInRuntime::Get(); \
  const std::lock_guard lock(runtime.lock())

extern "C" {

cudaError_t CUDARTAPI cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  OCTAVO_RUNTIME;
  *stream = runtime.AddStream(!(flags & cudaStreamNonBlocking));
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}
cudaError_t CUDARTAPI cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}
cudaError_t CUDARTAPI cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaStreamDestroy(cudaStream_t stream) {
  OCTAVO_RUNTIME;
  runtime.RemoveStream(stream);
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaStreamSynchronize(cudaStream_t stream) {
  OCTAVO_RUNTIME;
  if (runtime.Resolve(stream)->capture) return cudaErrorStreamCaptureUnsupported;
  if (IsPlanted("cudaStreamSynchronize")) return cudaSuccess;
  runtime.Drain(runtime.Resolve(stream));
  runtime.HostWaitsFor(runtime.Resolve(stream));
  return runtime.error();
}
cudaError_t CUDARTAPI cudaDeviceSynchronize() {
  OCTAVO_RUNTIME;
  if (runtime.Capturing()) return cudaErrorStreamCaptureUnsupported;
  runtime.DrainAll();
  runtime.HostWaitsForAll();
  return runtime.error();
}
cudaError_t CUDARTAPI cudaStreamQuery(cudaStream_t stream) {
  OCTAVO_RUNTIME;
  CUstream_st* own = runtime.Resolve(stream);
  if (own->queue.empty()) {
    runtime.HostWaitsFor(own);
    return runtime.error();
  }
  runtime.Step(own);  // time passes
  return cudaErrorNotReady;
}

cudaError_t CUDARTAPI cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}
cudaError_t CUDARTAPI cudaEventDestroy(cudaEvent_t event) {
  OCTAVO_RUNTIME;
  delete event;
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  OCTAVO_RUNTIME;
  CUstream_st* own = runtime.Resolve(stream);
  event->capture = own->capture;
  event->mark = std::make_shared<EventMark>();
  event->mark->stream = stream;
  event->mark->moment = own->capture ? own->branch.now() : own->clock.now();
  if (event->capture) return cudaSuccess;
  return runtime.EnqueueMark(own, [mark = event->mark] {
    mark->done = true;
    mark->time = std::chrono::steady_clock::now();
  });
}
cudaError_t CUDARTAPI cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  OCTAVO_RUNTIME;
  CUstream_st* own = runtime.Resolve(stream);
  if (event->capture) {
    // Joins the capture. Its works keep the order in which they were issued, which is a legal one.
    if (!event->capture->active) return cudaErrorInvalidValue;
    if (own->capture != event->capture) {
      std::vector<uint32_t>& ticks = event->capture->recording.ticks;
      own->branch = StreamClock(static_cast<uint32_t>(ticks.size()));
      ticks.push_back(0);
    }
    own->capture = event->capture;
    own->branch.Join(event->mark->moment);
    return cudaSuccess;
  }
  if (!event->mark) return cudaSuccess;
  if (own->capture) return cudaErrorStreamCaptureIsolation;
  if (IsPlanted("cudaStreamWaitEvent")) return cudaSuccess;
  auto mark = event->mark;
  own->clock.Join(mark->moment);
  return runtime.EnqueueMark(own, [&runtime, mark] { runtime.WaitFor(*mark); });
}
cudaError_t CUDARTAPI cudaEventSynchronize(cudaEvent_t event) {
  OCTAVO_RUNTIME;
  if (event->capture) return cudaErrorCapturedEvent;
  if (!event->mark || IsPlanted("cudaEventSynchronize")) return runtime.error();
  runtime.WaitFor(*event->mark);
  runtime.order().HostWaitsFor(event->mark->moment);
  return runtime.error();
}
cudaError_t CUDARTAPI cudaEventQuery(cudaEvent_t event) {
  OCTAVO_RUNTIME;
  if (event->capture) return cudaErrorCapturedEvent;
  if (!event->mark || runtime.error() != cudaSuccess) return runtime.error();
  if (event->mark->done) {
    runtime.order().HostWaitsFor(event->mark->moment);
    return cudaSuccess;
  }
  runtime.Step(runtime.Resolve(event->mark->stream));
  return cudaErrorNotReady;
}
cudaError_t CUDARTAPI cudaEventElapsedTime(float* millis, cudaEvent_t from, cudaEvent_t to) {
  OCTAVO_RUNTIME;
  if (!from->mark || !to->mark) return cudaErrorInvalidResourceHandle;
  if (!from->mark->done || !to->mark->done) return cudaErrorNotReady;
  *millis = std::chrono::duration<float, std::milli>(to->mark->time - from->mark->time).count();
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  OCTAVO_RUNTIME;
  return runtime.Enqueue(stream, {"cudaLaunchHostFunc", [=] { function(data); }, {}, {}});
}

cudaError_t CUDARTAPI cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  OCTAVO_RUNTIME;
  CUstream_st* own = runtime.Resolve(stream);
  if (!stream || own->capture) return cudaErrorIllegalState;
  own->capture = std::make_shared<Capture>();
  own->capture->recording.ticks = {0};
  own->branch = StreamClock(0);
  own->capture->mode = mode;
  own->capture->owner = std::this_thread::get_id();
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  OCTAVO_RUNTIME;
  *status = runtime.Resolve(stream)->capture ? cudaStreamCaptureStatusActive
                                             : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  OCTAVO_RUNTIME;
  *graph = nullptr;
  const std::shared_ptr<Capture> capture = runtime.Resolve(stream)->capture;
  if (!capture) return cudaErrorIllegalState;
  capture->active = false;
  runtime.Leave(capture);
  *graph = new CUgraph_st{std::make_shared<const Recording>(capture->recording)};
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  if (nodes) return cudaErrorNotSupported;
  *count = graph->recording->operations.size();
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                           unsigned long long) {
  OCTAVO_RUNTIME;
  const int64_t held = octavo::emulation::GetHiddenMemory().graph_bytes;
  if (!runtime.Hold(held)) return cudaErrorMemoryAllocation;
  *executable = new CUgraphExec_st{graph->recording, {}, held};
  for (size_t branch = 1; branch < graph->recording->ticks.size(); ++branch)
    (*executable)->branches.push_back(runtime.order().AddActor("branch of a graph"));
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return cudaSuccess; }
cudaError_t CUDARTAPI cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  OCTAVO_RUNTIME;
  CUstream_st* own = runtime.Resolve(stream);
  if (own->capture) return cudaErrorStreamCaptureUnsupported;
  return runtime.Launch(executable, own);
}
cudaError_t CUDARTAPI cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaGraphExecDestroy(cudaGraphExec_t executable) {
  OCTAVO_RUNTIME;
  for (const StreamClock& branch : executable->branches) runtime.order().RemoveActor(branch);
  runtime.Drop(executable->held_bytes);
  delete executable;
  return cudaSuccess;
}

}  // extern "C"
