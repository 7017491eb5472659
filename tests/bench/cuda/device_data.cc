#include "tests/bench/cuda/device_data.h"

#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <random>

#include "common/status_macros.h"
#include "worker/cpu/kv_rounding.h"
#include "worker/cuda/cuda_status.h"

namespace octavo::bench {
namespace {

// Odd, so that it does not beat with rows of a power of two.
constexpr int64_t kTileNumbers = (1 << 18) - 1;

std::vector<float> Normal(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

uint16_t CutToBFloat16(float value) {
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
}

template <typename T>
absl::StatusOr<Buffer> Repeated(cuda::CudaBackend& backend, int64_t count,
                                const std::vector<T>& tile) {
  const size_t bytes = static_cast<size_t>(count) * sizeof(T);
  OCTAVO_ASSIGN_OR_RETURN(Buffer buffer, backend.Allocate(bytes));
  OCTAVO_RETURN_IF_ERROR(FillDevice(backend, buffer.data(), bytes, std::as_bytes(std::span(tile))));
  return buffer;
}

// One row of K or V; returns the scale of int8.
uint16_t RoundRow(DType dtype, const float* x, int32_t count, std::byte* out) {
  switch (dtype) {
    case DType::kI8:
      return RoundToInt8(x, count, reinterpret_cast<int8_t*>(out));
    case DType::kF8E4M3:
    case DType::kF8E5M2:
      RoundToFloat8(dtype, x, count, reinterpret_cast<uint8_t*>(out));
      return 0;
    default:
      RoundToHalves(dtype, x, count, reinterpret_cast<uint16_t*>(out));
      return 0;
  }
}

}  // namespace

absl::Status FillDevice(cuda::CudaBackend& backend, std::byte* data, size_t bytes,
                        std::span<const std::byte> tile) {
  size_t filled = std::min(bytes, tile.size());
  OCTAVO_RETURN_IF_ERROR(backend.CopyToDevice(data, tile.data(), filled));
  while (filled < bytes) {
    const size_t more = std::min(filled, bytes - filled);
    OCTAVO_RETURN_IF_ERROR(
        cuda::ToStatus(cudaMemcpyAsync(data + filled, data, more, cudaMemcpyDeviceToDevice,
                                       backend.compute_stream()),
                       "cudaMemcpyAsync on the device"));
    filled += more;
  }
  return backend.Synchronize();
}

absl::StatusOr<Buffer> RandomFloats(cuda::CudaBackend& backend, int64_t count) {
  return Repeated(backend, count, Normal(static_cast<size_t>(std::min(count, kTileNumbers)), 1));
}

absl::StatusOr<Buffer> RandomBFloat16(cuda::CudaBackend& backend, int64_t count) {
  const std::vector<float> values = Normal(static_cast<size_t>(std::min(count, kTileNumbers)), 2);
  std::vector<uint16_t> tile(values.size());
  std::transform(values.begin(), values.end(), tile.begin(), CutToBFloat16);
  return Repeated(backend, count, tile);
}

absl::StatusOr<Buffer> RandomFp16(cuda::CudaBackend& backend, int64_t count) {
  const std::vector<float> values = Normal(static_cast<size_t>(std::min(count, kTileNumbers)), 2);
  std::vector<uint16_t> tile(values.size());
  std::transform(values.begin(), values.end(), tile.begin(),
                 [](float value) { return __half_as_ushort(__float2half(value)); });
  return Repeated(backend, count, tile);
}

absl::StatusOr<Buffer> RandomE4m3(cuda::CudaBackend& backend, int64_t count) {
  constexpr float kScale = 100.0f;  // of normal numbers, the largest of which are above 4
  const std::vector<float> values = Normal(static_cast<size_t>(std::min(count, kTileNumbers)), 2);
  std::vector<uint8_t> tile(values.size());
  std::transform(values.begin(), values.end(), tile.begin(), [](float value) {
    return __nv_cvt_float_to_fp8(value * kScale, __NV_SATFINITE, __NV_E4M3);
  });
  return Repeated(backend, count, tile);
}

std::vector<std::byte> RandomBlock(const CacheGeometry& geometry) {
  const KvShape& shape = geometry.shape();
  const DType dtype = geometry.dtype();
  const auto row_bytes = static_cast<size_t>(StorageBytes(dtype, shape.head_dim));
  const auto layer_bytes = static_cast<size_t>(geometry.bytes_per_layer_block());
  const auto rows = static_cast<size_t>(2 * shape.num_kv_heads * geometry.block_size());
  const auto dim = static_cast<size_t>(shape.head_dim);
  std::vector<std::byte> block(static_cast<size_t>(geometry.bytes_per_block()));
  for (size_t begin = 0, layer = 0; begin < block.size(); begin += layer_bytes, ++layer) {
    const std::vector<float> values = Normal(rows * dim, 3 + layer);
    for (size_t row = 0; row < rows; ++row) {
      const uint16_t scale = RoundRow(dtype, values.data() + row * dim, shape.head_dim,
                                      block.data() + begin + row * row_bytes);
      if (dtype == DType::kI8)
        std::memcpy(block.data() + begin + rows * row_bytes + 2 * row, &scale, sizeof scale);
    }
  }
  return block;
}

}  // namespace octavo::bench
