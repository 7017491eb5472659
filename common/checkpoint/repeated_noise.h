// Numbers for weights that nobody trained: much address space, little memory.
#ifndef OCTAVO_COMMON_CHECKPOINT_REPEATED_NOISE_H_
#define OCTAVO_COMMON_CHECKPOINT_REPEATED_NOISE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"

namespace octavo {

// bf16 numbers around 0 with a standard deviation of kSpread, none beyond 3.5 of those, the same in
// every process: one piece of kPeriodBytes, mapped as often as `bytes` needs. Read-only; any
// thread.
class RepeatedNoise {
 public:
  // What models are initialised with before training (Radford et al., GPT-2). Sums over thousands
  // of inputs that a norm has made unit size are then about 1: far from overflow at any width.
  static constexpr float kSpread = 0.02f;
  // A prime number of pages, so that rows of a power of two bytes seldom meet their own copy.
  static constexpr size_t kPeriodBytes = size_t{8191} * 4096;

  // RESOURCE_EXHAUSTED when there is not that much address space, or no memory for one period.
  static absl::StatusOr<std::unique_ptr<RepeatedNoise>> Create(size_t bytes);
  ~RepeatedNoise();
  RepeatedNoise(const RepeatedNoise&) = delete;
  RepeatedNoise& operator=(const RepeatedNoise&) = delete;

  const std::byte* data() const { return data_; }

 private:
  RepeatedNoise(std::byte* data, size_t mapped_bytes) : data_(data), mapped_bytes_(mapped_bytes) {}

  std::byte* const data_;
  const size_t mapped_bytes_;
};

}  // namespace octavo

#endif  // OCTAVO_COMMON_CHECKPOINT_REPEATED_NOISE_H_
