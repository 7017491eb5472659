// Copies from pageable host memory to the device without waiting for the device.
#ifndef OCTAVO_WORKER_CUDA_STAGING_H_
#define OCTAVO_WORKER_CUDA_STAGING_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/backend/buffer.h"

namespace octavo::cuda {

// A ring of pinned slots. A slot is filled on the host, sent on the stream, and filled again when
// its copy is complete, so a caller waits only when it is a whole ring ahead of the device. Owned
// and called by the thread that owns the stream.
class Staging {
 public:
  static constexpr size_t kSlotBytes = size_t{1} << 20;
  static constexpr int kSlots = 16;

  // REQUIRES: `stream` outlives it.
  static absl::StatusOr<std::unique_ptr<Staging>> Create(cudaStream_t stream);
  // REQUIRES: the stream has been synchronised, or the device is lost.
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // Fills a slot with `bytes` bytes through `fill` and sends them to `device`. REQUIRES: at most
  // kSlotBytes.
  absl::Status Send(void* device, size_t bytes, absl::FunctionRef<void(std::byte* slot)> fill);
  // The source may be changed on return.
  absl::Status Copy(void* device, const void* host, size_t bytes);

  // Where copies go in order.
  cudaStream_t stream() const { return stream_; }

 private:
  explicit Staging(cudaStream_t stream) : stream_(stream) {}

  const cudaStream_t stream_;
  Buffer pinned_;                    // [kSlots] of kSlotBytes
  std::vector<cudaEvent_t> copied_;  // [kSlots]
  int next_ = 0;
};

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_STAGING_H_
