#include "tests/emulation/stand_in_runtime.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

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
  options.profile = FromEnvironment("OCTAVO_EMU_PROFILE", 0) != 0;
  options.device_bytes = FromEnvironment("OCTAVO_EMU_DEVICE_BYTES", options.device_bytes);
  return options;
}

constexpr uint64_t kFirstRandomSeed = 4;
std::string planted_bug;

}  // namespace

Options& GetOptions() {
  static Options options = FromEnvironment();
  return options;
}

void Plant(const char* bug) { planted_bug = bug; }
bool IsPlanted(const char* bug) { return !planted_bug.empty() && planted_bug == bug; }

StandInRuntime& StandInRuntime::Get() {
  static auto* const runtime = new StandInRuntime;  // outlives what other statics do at exit
  return *runtime;
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
  streams_.push_back(stream);
  return stream;
}

void StandInRuntime::RemoveStream(cudaStream_t stream) {
  Drain(stream);
  std::erase(streams_, stream);
  delete stream;
}

void StandInRuntime::Step(CUstream_st* stream) {
  if (stream->queue.empty() || stream->busy) return;
  Work work = std::move(stream->queue.front());
  stream->queue.pop_front();
  stream->busy = true;
  try {
    if (error_ == cudaSuccess) work();
  } catch (const Error& error) {
    error_ = cudaErrorLaunchFailure;
    message_ = error.what();
    std::fprintf(stderr, "emulated device: %s\n", error.what());
  }
  stream->busy = false;
}

void StandInRuntime::RunSomeOther(const CUstream_st* except) {
  std::vector<CUstream_st*> ready;
  for (CUstream_st* stream : streams_)
    if (stream != except && !stream->queue.empty() && !stream->busy) ready.push_back(stream);
  if (!ready.empty()) Step(ready[random_ / 64 % ready.size()]);
}

cudaError_t StandInRuntime::Enqueue(cudaStream_t handle, Work work) {
  CUstream_st* stream = Resolve(handle);
  if (error_ != cudaSuccess) return error_;
  if (stream->capture) {
    stream->capture->works.push_back(std::move(work));
    return cudaSuccess;
  }
  stream->queue.push_back(std::move(work));
  if (GetOptions().eager_streams)
    Drain(stream);
  else if (Chance(3))
    RunSomeOther(nullptr);
  return error_;
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

cudaError_t Submit(cudaStream_t stream, std::function<void()> work) {
  StandInRuntime& runtime = StandInRuntime::Get();
  const std::lock_guard lock(runtime.lock());
  return runtime.Enqueue(stream, std::move(work));
}

std::string TakeError() {
  StandInRuntime& runtime = StandInRuntime::Get();
  const std::lock_guard lock(runtime.lock());
  return runtime.TakeError();
}

}  // namespace octavo::emulation
