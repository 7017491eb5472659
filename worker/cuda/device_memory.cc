#include "worker/cuda/device_memory.h"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "worker/cuda/cuda_status.h"

namespace octavo::cuda {
namespace {

// Of all backends of the process, which has one. Buffers may be freed by any thread.
struct Heap {
  absl::Mutex mutex;
  int64_t bytes ABSL_GUARDED_BY(mutex) = 0;
  int64_t peak ABSL_GUARDED_BY(mutex) = 0;

  static Heap& Get() {
    static auto* const heap = new Heap;  // outlives what other statics free at exit
    return *heap;
  }
  void Add(int64_t change) {
    absl::MutexLock lock(&mutex);
    bytes += change;
    peak = std::max(peak, bytes);
  }
};

// A buffer is freed where no status can be returned.
void LogFailure(cudaError_t error, const char* what) {
  const absl::Status status = ToStatus(error, what);
  if (!status.ok()) OCTAVO_LOG(kWarning, status.message());
}

}  // namespace

absl::StatusOr<DeviceMemory> ReadDeviceMemory() {
  size_t free_bytes = 0, total_bytes = 0;
  OCTAVO_RETURN_IF_ERROR(ToStatus(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo"));
  DeviceMemory memory;
  memory.total_bytes = static_cast<int64_t>(total_bytes);
  memory.free_bytes = static_cast<int64_t>(free_bytes);
  memory.dedicated = true;
  return memory;
}

absl::StatusOr<Buffer> AllocateDevice(size_t bytes) {
  if (bytes == 0) return Buffer();
  void* data = nullptr;
  const cudaError_t error = cudaMalloc(&data, bytes);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // not sticky: the next call must not find it
    const absl::StatusOr<DeviceMemory> memory = ReadDeviceMemory();
    return absl::ResourceExhaustedError(absl::StrCat(
        bytes, " bytes do not fit on the device",
        memory.ok()
            ? absl::StrCat(": ", memory->free_bytes, " of ", memory->total_bytes, " are free")
            : ""));
  }
  OCTAVO_RETURN_IF_ERROR(ToStatus(error, absl::StrCat("cudaMalloc of ", bytes, " bytes")));
  Heap::Get().Add(static_cast<int64_t>(bytes));
  return Buffer(static_cast<std::byte*>(data), bytes, [](std::byte* freed, size_t freed_bytes) {
    LogFailure(cudaFree(freed), "cudaFree");
    Heap::Get().Add(-static_cast<int64_t>(freed_bytes));
  });
}

int64_t DeviceHeapBytesAboveNow() {
  Heap& heap = Heap::Get();
  absl::MutexLock lock(&heap.mutex);
  return heap.peak - heap.bytes;
}

void RestartDeviceHeapPeak() {
  Heap& heap = Heap::Get();
  absl::MutexLock lock(&heap.mutex);
  heap.peak = heap.bytes;
}

absl::StatusOr<Buffer> AllocatePinned(size_t bytes) {
  if (bytes == 0) return Buffer();
  void* data = nullptr;
  const cudaError_t error = cudaHostAlloc(&data, bytes, cudaHostAllocDefault);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return absl::ResourceExhaustedError(
        absl::StrCat(bytes, " bytes of host memory cannot be pinned"));
  }
  OCTAVO_RETURN_IF_ERROR(ToStatus(error, absl::StrCat("cudaHostAlloc of ", bytes, " bytes")));
  return Buffer(static_cast<std::byte*>(data), bytes,
                [](std::byte* freed, size_t) { LogFailure(cudaFreeHost(freed), "cudaFreeHost"); });
}

absl::Status Grow(Buffer& buffer, size_t bytes, bool* grew) {
  if (buffer.bytes() >= bytes) return absl::OkStatus();
  buffer = Buffer();  // first, so that both need not fit
  OCTAVO_ASSIGN_OR_RETURN(buffer, AllocateDevice(bytes));
  if (grew != nullptr) *grew = true;
  return absl::OkStatus();
}

}  // namespace octavo::cuda
