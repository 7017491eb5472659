// Weights as checkpoints store them, of any type, for tests of the CUDA worker.
#ifndef OCTAVO_TESTS_WORKER_CUDA_STORED_WEIGHTS_TESTING_H_
#define OCTAVO_TESTS_WORKER_CUDA_STORED_WEIGHTS_TESTING_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "common/dtype.h"

namespace octavo::cuda {

// Stored bytes that are finite numbers in every format: scales are small halves.
inline std::vector<std::byte> RandomStored(DType dtype, int64_t rows, int64_t cols,
                                           std::mt19937& random) {
  const DTypeInfo info = Info(dtype);
  std::vector<std::byte> bytes(static_cast<size_t>(rows * StorageBytes(dtype, cols)));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  const auto floats = [&](auto bits) {
    for (size_t i = 0; i + sizeof(bits) <= bytes.size(); i += sizeof(bits)) {
      bits = static_cast<decltype(bits)>(
          std::bit_cast<uint32_t>(std::normal_distribution<float>()(random)) >>
          (sizeof(bits) == 2 ? 16 : 0));
      std::memcpy(bytes.data() + i, &bits, sizeof(bits));
    }
  };
  if (dtype == DType::kF32) floats(uint32_t{});
  if (dtype == DType::kBF16) floats(uint16_t{});
  if (dtype == DType::kF16 || info.block_elements > 1) {
    // Every 16-bit word below infinity, so that all scales are finite wherever they are.
    for (size_t i = 1; i < bytes.size(); i += 2) bytes[i] &= std::byte{0xBB};
  }
  return bytes;
}

}  // namespace octavo::cuda

#endif  // OCTAVO_TESTS_WORKER_CUDA_STORED_WEIGHTS_TESTING_H_
