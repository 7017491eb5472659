// bf16 values and raw device memory, for tests of the CUDA worker's host code.
#ifndef OCTAVO_TESTS_WORKER_CUDA_BFLOAT16_TESTING_H_
#define OCTAVO_TESTS_WORKER_CUDA_BFLOAT16_TESTING_H_

#include <cuda_runtime_api.h>

#include <bit>
#include <cstdint>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace octavo::cuda {

inline float FromBFloat16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// Normal values cut to bf16.
inline std::vector<uint16_t> RandomBFloat16(size_t count, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<uint16_t> values(count);
  for (uint16_t& value : values)
    value = static_cast<uint16_t>(std::bit_cast<uint32_t>(normal(random)) >> 16);
  return values;
}

// REQUIRES: the work that writes it is complete.
template <typename T>
std::vector<T> ReadDevice(const void* device, size_t count) {
  std::vector<T> values(count);
  EXPECT_EQ(cudaMemcpy(values.data(), device, count * sizeof(T), cudaMemcpyDeviceToHost),
            cudaSuccess);
  return values;
}

}  // namespace octavo::cuda

#endif  // OCTAVO_TESTS_WORKER_CUDA_BFLOAT16_TESTING_H_
