#include "worker/cuda/staging.h"

#include <algorithm>
#include <cstring>

#include "absl/memory/memory.h"
#include "common/check.h"
#include "common/status_macros.h"
#include "worker/cuda/cuda_status.h"
#include "worker/cuda/device_memory.h"

namespace octavo::cuda {

absl::StatusOr<std::unique_ptr<Staging>> Staging::Create(cudaStream_t stream) {
  auto staging = absl::WrapUnique(new Staging(stream));
  OCTAVO_ASSIGN_OR_RETURN(staging->pinned_, AllocatePinned(kSlots * kSlotBytes));
  for (int i = 0; i < kSlots; ++i) {
    cudaEvent_t event = nullptr;
    OCTAVO_RETURN_IF_ERROR(ToStatus(cudaEventCreateWithFlags(&event, cudaEventDisableTiming),
                                    "cudaEventCreateWithFlags"));
    staging->copied_.push_back(event);
  }
  return staging;
}

Staging::~Staging() {
  for (cudaEvent_t event : copied_) cudaEventDestroy(event);
}

absl::Status Staging::Send(void* device, size_t bytes,
                           absl::FunctionRef<void(std::byte* slot)> fill) {
  OCTAVO_CHECK(bytes <= kSlotBytes, "bytes=", bytes);
  if (bytes == 0) return absl::OkStatus();
  std::byte* const slot = pinned_.data() + static_cast<size_t>(next_) * kSlotBytes;
  const cudaEvent_t copied = copied_[static_cast<size_t>(next_)];
  next_ = (next_ + 1) % kSlots;
  OCTAVO_RETURN_IF_ERROR(ToStatus(cudaEventSynchronize(copied), "cudaEventSynchronize"));
  fill(slot);
  OCTAVO_RETURN_IF_ERROR(
      ToStatus(cudaMemcpyAsync(device, slot, bytes, cudaMemcpyHostToDevice, stream_),
               "cudaMemcpyAsync to the device"));
  return ToStatus(cudaEventRecord(copied, stream_), "cudaEventRecord");
}

absl::Status Staging::Copy(void* device, const void* host, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const size_t part = std::min(bytes - done, kSlotBytes);
    OCTAVO_RETURN_IF_ERROR(Send(static_cast<std::byte*>(device) + done, part, [&](std::byte* slot) {
      std::memcpy(slot, static_cast<const std::byte*>(host) + done, part);
    }));
    done += part;
  }
  return absl::OkStatus();
}

}  // namespace octavo::cuda
