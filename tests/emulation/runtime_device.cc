// The one device, what it says of itself, and errors.
#include <cstdio>
#include <cstring>

#include "tests/emulation/emulation.h"
#include "tests/emulation/scheduler.h"
#include "tests/emulation/stand_in_runtime.h"

using octavo::emulation::GetOptions;
using octavo::emulation::kMaxSharedBytes;
using octavo::emulation::StandInRuntime;

namespace {

constexpr size_t kSharedBytesPerMultiprocessor = 233472;  // of sm_90; each block costs 1 KiB more
constexpr size_t kSharedBytesOfSystem = 1024;
constexpr int kThreadsPerMultiprocessor = 2048;

const char* ErrorText(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    default:
      return "CUDA error";
  }
}

}  // namespace

extern "C" {

cudaError_t CUDARTAPI cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaSetDevice(int device) {
  return device == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}
cudaError_t CUDARTAPI cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (device != 0) return cudaErrorInvalidDevice;
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = GetOptions().multiprocessors;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      *value = GetOptions().capability / 10;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = GetOptions().capability % 10;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = 48 << 10;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(kMaxSharedBytes);
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = static_cast<int>(kSharedBytesPerMultiprocessor);
      return cudaSuccess;
    case cudaDevAttrMaxThreadsPerBlock:
      *value = 1024;
      return cudaSuccess;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = kThreadsPerMultiprocessor;
      return cudaSuccess;
    case cudaDevAttrMaxRegistersPerBlock:
    case cudaDevAttrMaxRegistersPerMultiprocessor:
      *value = 65536;
      return cudaSuccess;
    case cudaDevAttrWarpSize:
      *value = 32;
      return cudaSuccess;
    case cudaDevAttrMemoryPoolsSupported:
      *value = 1;
      return cudaSuccess;
    default:
      return cudaErrorInvalidValue;
  }
}
cudaError_t CUDARTAPI cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device != 0) return cudaErrorInvalidDevice;
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "emulated device");
  properties->totalGlobalMem = static_cast<size_t>(GetOptions().device_bytes);
  properties->multiProcessorCount = GetOptions().multiprocessors;
  properties->major = GetOptions().capability / 10;
  properties->minor = GetOptions().capability % 10;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = 1024;
  properties->maxThreadsPerMultiProcessor = kThreadsPerMultiprocessor;
  properties->sharedMemPerBlock = 48 << 10;
  properties->sharedMemPerBlockOptin = kMaxSharedBytes;
  properties->sharedMemPerMultiprocessor = kSharedBytesPerMultiprocessor;
  properties->regsPerBlock = 65536;
  properties->regsPerMultiprocessor = 65536;
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaFuncSetAttribute(const void*, cudaFuncAttribute attribute, int value) {
  const bool too_much = attribute == cudaFuncAttributeMaxDynamicSharedMemorySize &&
                        value > static_cast<int>(kMaxSharedBytes);
  return too_much ? cudaErrorInvalidValue : cudaSuccess;
}
// By threads and shared memory alone: the emulation knows no registers.
cudaError_t CUDARTAPI cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, const void*, int threads, size_t shared_bytes, unsigned) {
  const int by_threads = kThreadsPerMultiprocessor / threads;
  const auto by_shared =
      static_cast<int>(kSharedBytesPerMultiprocessor / (shared_bytes + kSharedBytesOfSystem));
  *blocks = by_threads < by_shared ? by_threads : by_shared;
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* kernel,
                                                                    int threads,
                                                                    size_t shared_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, kernel, threads,
                                                                shared_bytes, 0);
}

// Only what is sticky: every call answers its own errors.
cudaError_t CUDARTAPI cudaPeekAtLastError() {
  StandInRuntime& runtime = StandInRuntime::Get();
  const std::lock_guard lock(runtime.lock());
  return runtime.error();
}
cudaError_t CUDARTAPI cudaGetLastError() { return cudaPeekAtLastError(); }
const char* CUDARTAPI cudaGetErrorName(cudaError_t error) { return ErrorText(error); }
// Of the sticky error what the kernel did wrong, with its thread.
const char* CUDARTAPI cudaGetErrorString(cudaError_t error) {
  StandInRuntime& runtime = StandInRuntime::Get();
  const std::lock_guard lock(runtime.lock());
  if (error != cudaSuccess && error == runtime.error()) return runtime.message().c_str();
  return ErrorText(error);
}

}  // extern "C"
