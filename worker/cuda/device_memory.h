// Memory of a card, and host memory pinned for it, as Buffers.
#ifndef OCTAVO_WORKER_CUDA_DEVICE_MEMORY_H_
#define OCTAVO_WORKER_CUDA_DEVICE_MEMORY_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "worker/backend/backend.h"
#include "worker/backend/buffer.h"

namespace octavo::cuda {

// Of the calling thread's device.
absl::StatusOr<DeviceMemory> ReadDeviceMemory();

// At least 256-byte aligned, not cleared; an empty buffer for 0 bytes. RESOURCE_EXHAUSTED naming
// what was asked for and what is free. Freeing waits for the device.
absl::StatusOr<Buffer> AllocateDevice(size_t bytes);
// Page-locked at once, all of it. RESOURCE_EXHAUSTED naming what was asked for.
absl::StatusOr<Buffer> AllocatePinned(size_t bytes);

// Of what this process has from AllocateDevice: the most at any time since the last restart, less
// what it has now. A peak that has passed is not in what the driver says.
int64_t DeviceHeapBytesAboveNow();
void RestartDeviceHeapPeak();

// Makes `buffer` hold `bytes` at least; what it held is lost when it grows, and `*grew` is set when
// its address changed.
absl::Status Grow(Buffer& buffer, size_t bytes, bool* grew = nullptr);

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_DEVICE_MEMORY_H_
