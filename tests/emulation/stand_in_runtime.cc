#include "tests/emulation/stand_in_runtime.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "tests/emulation/access_hooks.h"
#include "tests/emulation/emulation.h"

namespace octavo::emulation {
namespace {

int64_t FromEnvironment(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text && *text ? std::strtoll(text, nullptr, 10) : otherwise;
}

Options FromEnvironment() {
  Options options;
  options.seed = static_cast<uint64_t>(FromEnvironment("OCTAVO_EMU_SEED", 0));
  options.resident_blocks = static_cast<int>(FromEnvironment("OCTAVO_EMU_RESIDENT", 1));
  const char* streams = std::getenv("OCTAVO_EMU_STREAMS");
  options.eager_streams = streams ? std::string(streams) == "eager" : options.seed % 4 == 1;
  options.check_order = FromEnvironment("OCTAVO_EMU_ORDER", hooks != nullptr) != 0;
  options.profile = FromEnvironment("OCTAVO_EMU_PROFILE", 0) != 0;
  options.device_bytes = FromEnvironment("OCTAVO_EMU_DEVICE_BYTES", options.device_bytes);
  options.capability =
      static_cast<int>(FromEnvironment("OCTAVO_EMU_CAPABILITY", options.capability));
  return options;
}

constexpr uint64_t kFirstRandomSeed = 4;
std::string planted_bug;

}  // namespace

Options& GetOptions() {
  static Options options = FromEnvironment();
  return options;
}

HiddenMemory& GetHiddenMemory() {
  static HiddenMemory hidden;
  return hidden;
}

void Plant(const char* bug) { planted_bug = bug; }
bool IsPlanted(const char* bug) { return !planted_bug.empty() && planted_bug == bug; }

StandInRuntime& StandInRuntime::Get() {
  static auto* const runtime = new StandInRuntime;  // outlives what other statics do at exit
  return *runtime;
}

StandInRuntime::StandInRuntime()
    : order_([this](const std::function<void(const Moment&)>& visit) { VisitPending(visit); }) {
  legacy_.clock = order_.AddActor("default stream");
}

void StandInRuntime::VisitPending(const std::function<void(const Moment&)>& visit) const {
  const auto visit_all = [&](const CUstream_st& stream) {
    for (const Work& work : stream.queue)
      if (work.moment) visit(*work.moment);
  };
  visit_all(legacy_);
  for (const CUstream_st* stream : streams_) visit_all(*stream);
}

bool StandInRuntime::Chance(uint64_t one_in) {
  const uint64_t seed = GetOptions().seed;
  if (seed < kFirstRandomSeed) return false;
  if (!random_) random_ = seed * 0x9E3779B97F4A7C15ull + 1;
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  return random_ % one_in == 0;
}

CUstream_st* StandInRuntime::Resolve(cudaStream_t stream) {
  const bool legacy = !stream || stream == cudaStreamLegacy || stream == cudaStreamPerThread;
  return legacy ? &legacy_ : stream;
}

cudaStream_t StandInRuntime::AddStream(bool blocking) {
  auto* stream = new CUstream_st;
  stream->blocking = blocking;
  stream->clock = order_.AddActor("stream");
  streams_.push_back(stream);
  return stream;
}

void StandInRuntime::RemoveStream(cudaStream_t stream) {
  Drain(stream);
  std::erase(streams_, stream);
  order_.RemoveActor(stream->clock);
  delete stream;
}

void StandInRuntime::Step(CUstream_st* stream) {
  if (stream->queue.empty() || stream->busy) return;
  Work work = std::move(stream->queue.front());
  stream->queue.pop_front();
  stream->busy = true;
  try {
    if (error_ == cudaSuccess) work.run();
  } catch (const Error& error) {
    SetError(error.what());
  }
  stream->busy = false;
}

void StandInRuntime::SetError(const std::string& message) {
  error_ = cudaErrorLaunchFailure;
  message_ = message;
  std::fprintf(stderr, "emulated device: %s\n", message.c_str());
}

void StandInRuntime::RunSomeOther(const CUstream_st* except) {
  std::vector<CUstream_st*> ready;
  for (CUstream_st* stream : streams_)
    if (stream != except && !stream->queue.empty() && !stream->busy) ready.push_back(stream);
  if (!ready.empty()) Step(ready[random_ / 64 % ready.size()]);
}

cudaError_t StandInRuntime::Enqueue(cudaStream_t handle, Operation operation) {
  CUstream_st* stream = Resolve(handle);
  if (error_ != cudaSuccess) return error_;
  auto shared = std::make_shared<const Operation>(std::move(operation));
  if (stream->capture) {
    const Moment moment = stream->branch.Next();
    stream->capture->recording.operations.push_back({std::move(shared), moment});
    stream->capture->recording.ticks[moment.actor] = moment.tick;
    return cudaSuccess;
  }
  stream->clock.Join(order_.host());
  const Moment moment = stream->clock.Next();
  order_.Submit(*shared, moment);
  return Push(stream, {[this, shared, moment] { order_.Run(*shared, moment); }, moment});
}

cudaError_t StandInRuntime::EnqueueMark(CUstream_st* stream, std::function<void()> run) {
  if (error_ != cudaSuccess) return error_;
  return Push(stream, {std::move(run), std::nullopt});
}

cudaError_t StandInRuntime::Launch(CUgraphExec_st* graph, CUstream_st* stream) {
  if (error_ != cudaSuccess) return error_;
  const Recording& recording = *graph->recording;
  stream->clock.Join(order_.host());
  const Moment launch = stream->clock.now();
  // [branch]: of the stream itself first. The others begin at the launch and end before what the
  // stream does next.
  std::vector<StreamClock*> clocks = {&stream->clock};
  for (StreamClock& branch : graph->branches) clocks.push_back(&branch);
  std::vector<RecordedOperation> replayed = recording.operations;
  for (RecordedOperation& operation : replayed) {
    const Moment recorded = operation.moment;
    const Moment& begin = clocks[recorded.actor]->now();
    StreamClock clock(Moment{begin.actor, begin.tick + recorded.tick, launch.known});
    clock.Join(launch);
    for (uint32_t branch = 0; branch < clocks.size(); ++branch)
      if (const uint32_t tick = TickOf(recorded.known, branch))
        clock.Join({clocks[branch]->actor(), clocks[branch]->now().tick + tick, nullptr});
    operation.moment = clock.now();
    order_.Submit(*operation.operation, operation.moment);
  }
  for (size_t branch = 0; branch < clocks.size(); ++branch)
    clocks[branch]->Advance(recording.ticks[branch]);
  for (const StreamClock& branch : graph->branches) stream->clock.Join(branch.now());
  return Push(stream, {[this, replayed = std::move(replayed)] {
                         for (const RecordedOperation& operation : replayed)
                           order_.Run(*operation.operation, operation.moment);
                       },
                       launch});
}

cudaError_t StandInRuntime::Push(CUstream_st* stream, Work work) {
  stream->queue.push_back(std::move(work));
  if (GetOptions().eager_streams)
    Drain(stream);
  else if (Chance(3))
    RunSomeOther(nullptr);
  return error_;
}

void StandInRuntime::HostWaitsForAll() {
  HostWaitsFor(&legacy_);
  for (CUstream_st* stream : streams_) HostWaitsFor(stream);
}

void StandInRuntime::OrderLegacy(bool after) {
  for (CUstream_st* stream : streams_) {
    if (!stream->blocking) continue;
    if (after)
      legacy_.clock.Join(stream->clock.now());
    else
      stream->clock.Join(legacy_.clock.now());
  }
}

void StandInRuntime::Drain(CUstream_st* stream) {
  while (!stream->queue.empty() && !stream->busy) {
    if (Chance(2)) RunSomeOther(stream);
    Step(stream);
  }
}

void StandInRuntime::DrainBlocking() {
  Drain(&legacy_);
  for (CUstream_st* stream : streams_)
    if (stream->blocking) Drain(stream);
}

void StandInRuntime::DrainAll() {
  Drain(&legacy_);
  for (CUstream_st* stream : streams_) Drain(stream);
}

void StandInRuntime::WaitFor(const EventMark& mark) {
  CUstream_st* stream = Resolve(mark.stream);
  while (!mark.done && !stream->queue.empty() && !stream->busy) Step(stream);
}

void StandInRuntime::Leave(const std::shared_ptr<Capture>& capture) {
  if (legacy_.capture == capture) legacy_.capture = nullptr;
  for (CUstream_st* stream : streams_)
    if (stream->capture == capture) stream->capture = nullptr;
}

bool StandInRuntime::Capturing() const {
  auto forbids = [](const CUstream_st& stream) {
    return stream.capture && (stream.capture->mode == cudaStreamCaptureModeGlobal ||
                              (stream.capture->mode == cudaStreamCaptureModeThreadLocal &&
                               stream.capture->owner == std::this_thread::get_id()));
  };
  return forbids(legacy_) || std::any_of(streams_.begin(), streams_.end(),
                                         [&](const CUstream_st* s) { return forbids(*s); });
}

std::string StandInRuntime::TakeError() {
  error_ = cudaSuccess;
  legacy_.queue.clear();
  for (CUstream_st* stream : streams_) stream->queue.clear();
  return std::exchange(message_, {});
}

cudaError_t Submit(cudaStream_t stream, Operation operation) {
  StandInRuntime& runtime = StandInRuntime::Get();
  const std::lock_guard lock(runtime.lock());
  return runtime.Enqueue(stream, std::move(operation));
}
cudaError_t Submit(cudaStream_t stream, std::function<void()> work) {
  return Submit(stream, Operation{"", std::move(work), {}, {}});
}

void NoteAccesses(const std::string& kernel, const std::vector<ByteRange>& reads,
                  const std::vector<ByteRange>& writes) {
  StandInRuntime& runtime = StandInRuntime::Get();
  const std::lock_guard lock(runtime.lock());
  runtime.order().Touch(kernel, reads, writes);
}

bool HandleHostFault(const void* address, bool write) {
  StandInRuntime& runtime = StandInRuntime::Get();
  const std::lock_guard lock(runtime.lock());
  std::string report;
  if (!runtime.order().HostFault(reinterpret_cast<uintptr_t>(address), write, &report))
    return false;
  if (!report.empty()) runtime.SetError(report);
  return true;
}

std::string TakeError() {
  StandInRuntime& runtime = StandInRuntime::Get();
  const std::lock_guard lock(runtime.lock());
  return runtime.TakeError();
}

}  // namespace octavo::emulation
