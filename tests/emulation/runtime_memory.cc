// Device memory: addresses are never reused, an allocation ends at an inaccessible page, and its
// bytes start as NaN. Copies check both ends.
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tests/emulation/access_hooks.h"
#include "tests/emulation/emulation.h"
#include "tests/emulation/scheduler.h"
#include "tests/emulation/stand_in_runtime.h"

namespace octavo::emulation {
namespace {

constexpr size_t kAddressBytes = size_t{1} << 38;
constexpr size_t kDevicePage = 4096;
constexpr size_t kAlignment = 256;  // of what cudaMalloc answers

size_t RoundUp(size_t value, size_t to) { return (value + to - 1) / to * to; }

bool Within(const std::map<uintptr_t, size_t>& ranges, const void* address, size_t bytes) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  auto it = ranges.upper_bound(at);
  if (it == ranges.begin()) return false;
  --it;
  return at + bytes <= it->first + it->second;
}

}  // namespace

bool StandInRuntime::OnDevice(const void* address) const {
  const auto* at = static_cast<const char*>(address);
  return address_space_ && at >= address_space_ && at < address_space_ + kAddressBytes;
}
bool StandInRuntime::InAllocation(const void* address, size_t bytes) const {
  return Within(allocations_, address, bytes);
}
bool StandInRuntime::Pinned(const void* address, size_t bytes) const {
  return Within(pinned_, address, bytes);
}
void StandInRuntime::AddPinned(const void* address, size_t bytes) {
  pinned_[reinterpret_cast<uintptr_t>(address)] = bytes;
}
bool StandInRuntime::RemovePinned(const void* address) {
  const auto found = pinned_.find(reinterpret_cast<uintptr_t>(address));
  if (found == pinned_.end()) return false;
  order_.Forget(RangeOf(address, RoundUp(found->second, kDevicePage)));
  pinned_.erase(found);
  return true;
}
bool StandInRuntime::Hold(int64_t bytes) {
  const auto more = static_cast<size_t>(bytes);
  if (device_bytes_used_ + more > static_cast<size_t>(GetOptions().device_bytes)) return false;
  device_bytes_used_ += more;
  return true;
}
size_t StandInRuntime::AllocationBytes(const void* address) const {
  const auto found = allocations_.find(reinterpret_cast<uintptr_t>(address));
  return found == allocations_.end() ? 0 : found->second;
}

cudaError_t StandInRuntime::Allocate(void** out, size_t bytes) {
  *out = nullptr;
  if (Capturing()) return cudaErrorStreamCaptureUnsupported;
  if (!address_space_) {
    void* space =
        mmap(nullptr, kAddressBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED) return cudaErrorMemoryAllocation;
    address_space_ = static_cast<char*>(space);
  }
  if (!bytes) return cudaSuccess;
  const size_t aligned = RoundUp(bytes, kAlignment), pages = RoundUp(aligned, kDevicePage);
  if (device_bytes_used_ + aligned > static_cast<size_t>(GetOptions().device_bytes) ||
      next_offset_ + pages + kDevicePage > kAddressBytes)
    return cudaErrorMemoryAllocation;
  char* first = address_space_ + next_offset_;
  if (mprotect(first, pages, PROT_READ | PROT_WRITE)) return cudaErrorMemoryAllocation;
  next_offset_ += pages + kDevicePage;
  memset(first, kPoison, pages);
  char* address = first + pages - aligned;
  ASAN_POISON_MEMORY_REGION(first, pages);
  ASAN_UNPOISON_MEMORY_REGION(address, bytes);
  allocations_[reinterpret_cast<uintptr_t>(address)] = bytes;
  device_bytes_used_ += aligned;
  *out = address;
  return cudaSuccess;
}

cudaError_t StandInRuntime::Free(void* address) {
  const auto it = allocations_.find(reinterpret_cast<uintptr_t>(address));
  if (it == allocations_.end()) return cudaErrorInvalidValue;
  const size_t aligned = RoundUp(it->second, kAlignment), pages = RoundUp(aligned, kDevicePage);
  char* first = static_cast<char*>(address) + aligned - pages;
  mprotect(first, pages, PROT_NONE);
  madvise(first, pages, MADV_DONTNEED);
  device_bytes_used_ -= aligned;
  order_.Forget(RangeOf(address, it->second));
  allocations_.erase(it);
  return cudaSuccess;
}

bool InDevice(const void* address, size_t bytes, bool* bad) {
  const StandInRuntime& runtime = StandInRuntime::Get();
  if (!runtime.OnDevice(address)) return false;
  *bad = !runtime.InAllocation(address, bytes);
  return true;
}

namespace {

// One end of a copy. An Error inside of queued work is the device's, and sticky.
void CheckEnd(const void* address, size_t bytes, bool device, const char* what) {
  const StandInRuntime& runtime = StandInRuntime::Get();
  if (device && !runtime.InAllocation(address, bytes))
    throw Error(std::string(what) + ": " + std::to_string(bytes) +
                " bytes are not inside one device allocation");
  if (!device && runtime.OnDevice(address))
    throw Error(std::string(what) + ": device memory is given as host memory");
}

struct Span2D {  // rows of `width` bytes; one row for a plain copy
  const void* address;
  size_t pitch;
};

std::vector<ByteRange> RangesOf(Span2D span, size_t width, size_t height) {
  if (span.pitch == width) return {RangeOf(span.address, width * height)};
  std::vector<ByteRange> ranges;
  for (size_t row = 0; row < height; ++row)
    ranges.push_back(RangeOf(static_cast<const char*>(span.address) + row * span.pitch, width));
  return ranges;
}

cudaError_t CopyRows(Span2D target, Span2D source, size_t width, size_t height, cudaMemcpyKind kind,
                     cudaStream_t handle) {
  StandInRuntime& runtime = StandInRuntime::Get();
  const bool guess = kind == cudaMemcpyDefault;
  const bool from_device = guess
                               ? runtime.OnDevice(source.address)
                               : kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  const bool to_device = guess ? runtime.OnDevice(target.address)
                               : kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  if (!width || !height) return runtime.error();
  auto extent = [&](size_t pitch) { return pitch * (height - 1) + width; };
  const size_t source_bytes = extent(source.pitch), target_bytes = extent(target.pitch);
  auto copy = [=](const char* from) {
    CheckEnd(target.address, target_bytes, to_device, "target of a copy");
    for (size_t row = 0; row < height; ++row)
      memmove(static_cast<char*>(const_cast<void*>(target.address)) + row * target.pitch,
              from + row * source.pitch, width);
  };
  CUstream_st* stream = runtime.Resolve(handle);
  const bool pinned_source = !from_device && runtime.Pinned(source.address, source_bytes);
  const bool pinned_target = !to_device && runtime.Pinned(target.address, target_bytes);
  Operation operation;
  operation.name = std::string("copy from the ") + (from_device ? "device" : "host") + " to the " +
                   (to_device ? "device" : "host");
  if (from_device || pinned_source) operation.reads = RangesOf(source, width, height);
  if (to_device || pinned_target) operation.writes = RangesOf(target, width, height);
  operation.run = [=] {
    CheckEnd(source.address, source_bytes, from_device, "source of a copy");
    copy(static_cast<const char*>(source.address));
  };
  const bool pageable = !from_device && !pinned_source;
  if (pageable && !runtime.OnDevice(source.address) &&
      !stream->capture) {  // staged before the call returns
    const auto* bytes = static_cast<const char*>(source.address);
    auto staged = std::make_shared<std::vector<char>>(bytes, bytes + source_bytes);
    operation.run = [=] { copy(staged->data()); };
  }
  const cudaError_t error = runtime.Enqueue(handle, std::move(operation));
  if (error != cudaSuccess) return error;
  // A copy into pageable memory is complete when the call returns.
  if (!to_device && !pinned_target && !stream->capture) {
    runtime.Drain(stream);
    runtime.HostWaitsFor(stream);
  }
  return runtime.error();
}

}  // namespace
}  // namespace octavo::emulation

using octavo::emulation::Operation;
using octavo::emulation::RangeOf;
using octavo::emulation::StandInRuntime;

#define OCTAVO_RUNTIME                             \
  StandInRuntime& runtime = StandInRuntime::Get(); \
  const std::lock_guard lock(runtime.lock())

extern "C" {

cudaError_t CUDARTAPI cudaMalloc(void** address, size_t bytes) {
  OCTAVO_RUNTIME;
  return runtime.Allocate(address, bytes);
}
cudaError_t CUDARTAPI cudaFree(void* address) {
  OCTAVO_RUNTIME;
  runtime.DrainAll();
  runtime.HostWaitsForAll();
  if (!address) return runtime.error();
  const cudaError_t error = runtime.Free(address);
  return error != cudaSuccess ? error : runtime.error();
}
cudaError_t CUDARTAPI cudaMallocAsync(void** address, size_t bytes, cudaStream_t) {
  OCTAVO_RUNTIME;
  return runtime.Allocate(address, bytes);
}
cudaError_t CUDARTAPI cudaFreeAsync(void* address, cudaStream_t stream) {
  OCTAVO_RUNTIME;
  Operation operation;
  operation.name = "cudaFreeAsync";
  operation.run = [&runtime, address] {
    if (address && runtime.Free(address) != cudaSuccess)
      throw octavo::emulation::Error("cudaFreeAsync: not an allocation");
  };
  operation.writes = {RangeOf(address, runtime.AllocationBytes(address))};
  return runtime.Enqueue(stream, std::move(operation));
}
cudaError_t CUDARTAPI cudaHostAlloc(void** address, size_t bytes, unsigned) {
  OCTAVO_RUNTIME;
  const size_t pages =
      octavo::emulation::RoundUp(std::max<size_t>(bytes, 1), octavo::emulation::kDevicePage);
  *address = std::aligned_alloc(octavo::emulation::kDevicePage, pages);
  if (!*address) return cudaErrorMemoryAllocation;
  runtime.AddPinned(*address, bytes);
  runtime.order().AddPinned(RangeOf(*address, pages));
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaMallocHost(void** address, size_t bytes) {
  return cudaHostAlloc(address, bytes, cudaHostAllocDefault);
}
cudaError_t CUDARTAPI cudaFreeHost(void* address) {
  OCTAVO_RUNTIME;
  runtime.DrainAll();
  runtime.HostWaitsForAll();
  if (address && !runtime.RemovePinned(address)) return cudaErrorInvalidValue;
  std::free(address);
  return runtime.error();
}
cudaError_t CUDARTAPI cudaHostRegister(void* address, size_t bytes, unsigned) {
  OCTAVO_RUNTIME;
  runtime.AddPinned(address, bytes);
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaHostUnregister(void* address) {
  OCTAVO_RUNTIME;
  return runtime.RemovePinned(address) ? cudaSuccess : cudaErrorHostMemoryNotRegistered;
}
cudaError_t CUDARTAPI cudaMemcpyAsync(void* target, const void* source, size_t bytes,
                                      cudaMemcpyKind kind, cudaStream_t stream) {
  OCTAVO_RUNTIME;
  return octavo::emulation::CopyRows({target, bytes}, {source, bytes}, bytes, 1, kind, stream);
}
cudaError_t CUDARTAPI cudaMemcpy2DAsync(void* target, size_t target_pitch, const void* source,
                                        size_t source_pitch, size_t width, size_t height,
                                        cudaMemcpyKind kind, cudaStream_t stream) {
  OCTAVO_RUNTIME;
  if (width > target_pitch || width > source_pitch) return cudaErrorInvalidPitchValue;
  return octavo::emulation::CopyRows({target, target_pitch}, {source, source_pitch}, width, height,
                                     kind, stream);
}
cudaError_t CUDARTAPI cudaMemcpy(void* target, const void* source, size_t bytes,
                                 cudaMemcpyKind kind) {
  OCTAVO_RUNTIME;
  if (runtime.Capturing()) return cudaErrorStreamCaptureUnsupported;
  runtime.DrainBlocking();
  runtime.OrderLegacy(/*after=*/true);
  const cudaError_t error =
      octavo::emulation::CopyRows({target, bytes}, {source, bytes}, bytes, 1, kind, nullptr);
  runtime.DrainBlocking();
  runtime.OrderLegacy(/*after=*/false);
  // Others return while the device may still copy: what was pageable is staged by then.
  const bool to_host = kind == cudaMemcpyDeviceToHost;
  if (to_host || runtime.Pinned(source, bytes)) runtime.HostWaitsFor(runtime.Resolve(nullptr));
  return error != cudaSuccess ? error : runtime.error();
}
cudaError_t CUDARTAPI cudaMemsetAsync(void* address, int value, size_t bytes, cudaStream_t stream) {
  OCTAVO_RUNTIME;
  Operation operation;
  operation.name = "cudaMemsetAsync";
  operation.run = [=] {
    octavo::emulation::CheckEnd(address, bytes, true, "cudaMemsetAsync");
    memset(address, value, bytes);
  };
  operation.writes = {RangeOf(address, bytes)};
  return runtime.Enqueue(stream, std::move(operation));
}
cudaError_t CUDARTAPI cudaMemset(void* address, int value, size_t bytes) {
  OCTAVO_RUNTIME;
  runtime.DrainBlocking();
  runtime.OrderLegacy(/*after=*/true);
  const cudaError_t error = cudaMemsetAsync(address, value, bytes, nullptr);
  runtime.DrainBlocking();
  runtime.OrderLegacy(/*after=*/false);
  return error != cudaSuccess ? error : runtime.error();
}
cudaError_t CUDARTAPI cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  OCTAVO_RUNTIME;
  *total_bytes = static_cast<size_t>(octavo::emulation::GetOptions().device_bytes);
  *free_bytes = *total_bytes - runtime.device_bytes_used();
  return cudaSuccess;
}

}  // extern "C"
