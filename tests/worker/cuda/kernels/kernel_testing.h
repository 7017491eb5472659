// What tests of kernels share beside device memory.
#ifndef OCTAVO_TESTS_WORKER_CUDA_KERNELS_KERNEL_TESTING_H_
#define OCTAVO_TESTS_WORKER_CUDA_KERNELS_KERNEL_TESTING_H_

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tests/emulation/device_array.h"

namespace octavo::cuda {

using emulation::DeviceArray;
using emulation::DeviceStream;

// Waits; what the launch answered, or else how its kernel ended. Empty: well.
inline std::string Finish(const DeviceStream& stream, const absl::Status& launched) {
  const std::string ended = stream.Synchronize();
  return launched.ok() ? ended : std::string(launched.message());
}

inline std::vector<float> NormalFloats(size_t count, float spread, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

inline float FromBf16(uint16_t bits) {
  const uint32_t wide = uint32_t{bits} << 16;
  float value = 0;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

}  // namespace octavo::cuda

#endif  // OCTAVO_TESTS_WORKER_CUDA_KERNELS_KERNEL_TESTING_H_
