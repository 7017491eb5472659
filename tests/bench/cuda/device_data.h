// Device memory full of numbers that are not zero: kernels are faster on zeros than on data.
#ifndef OCTAVO_TESTS_BENCH_CUDA_DEVICE_DATA_H_
#define OCTAVO_TESTS_BENCH_CUDA_DEVICE_DATA_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/cache_geometry.h"
#include "worker/backend/buffer.h"
#include "worker/cuda/cuda_backend.h"

namespace octavo::bench {

// Repeats `tile` over [data, data + bytes), by copies on the device; waits. REQUIRES: not empty.
absl::Status FillDevice(cuda::CudaBackend& backend, std::byte* data, size_t bytes,
                        std::span<const std::byte> tile);

// Buffers of standard normal numbers that repeat after a MiB or so.
absl::StatusOr<Buffer> RandomFloats(cuda::CudaBackend& backend, int64_t count);
absl::StatusOr<Buffer> RandomBFloat16(cuda::CudaBackend& backend, int64_t count);
absl::StatusOr<Buffer> RandomFp16(cuda::CudaBackend& backend, int64_t count);
// Codes of such numbers when a scale makes 448 of the largest; none is NaN.
absl::StatusOr<Buffer> RandomE4m3(cuda::CudaBackend& backend, int64_t count);

// The bytes of one whole block: standard normal keys and values as the cache's type rounds them,
// int8's scales in their places (paged_kv.h). Layers differ from each other.
std::vector<std::byte> RandomBlock(const CacheGeometry& geometry);

// Copies to a new buffer; waits.
template <typename T>
absl::StatusOr<Buffer> ToDevice(cuda::CudaBackend& backend, const std::vector<T>& values) {
  const size_t bytes = values.size() * sizeof(T);
  auto buffer = backend.Allocate(bytes);
  if (!buffer.ok()) return buffer;
  const absl::Status copied = backend.CopyToDevice(buffer->data(), values.data(), bytes);
  if (!copied.ok()) return copied;
  return buffer;
}

}  // namespace octavo::bench

#endif  // OCTAVO_TESTS_BENCH_CUDA_DEVICE_DATA_H_
