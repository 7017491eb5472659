// Limits of launches, checked in a row: the first that does not hold becomes the launch's answer.
#ifndef OCTAVO_WORKER_CUDA_KERNELS_SHAPE_CHECK_H_
#define OCTAVO_WORKER_CUDA_KERNELS_SHAPE_CHECK_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace octavo::cuda {

// What a grid's y dimension takes, and so the rows that kernels with one row per y take.
inline constexpr int64_t kMaxGridY = 65535;

//   ShapeCheck check("softcap");
//   check.Between("rows", args.rows, 0, kMaxGridY).NotNull("x", args.x);
//   if (!check.status().ok()) return check.status();
class ShapeCheck {
 public:
  explicit ShapeCheck(absl::string_view kernel) : kernel_(kernel) {}

  ShapeCheck& Between(absl::string_view what, int64_t value, int64_t least, int64_t most);
  ShapeCheck& AtLeast(absl::string_view what, int64_t value, int64_t least);
  ShapeCheck& MultipleOf(absl::string_view what, int64_t value, int64_t divisor);
  ShapeCheck& NotNull(absl::string_view what, const void* pointer);
  // Not null, and so that accesses of `bytes` bytes are legal there.
  ShapeCheck& Aligned(absl::string_view what, const void* pointer, int64_t bytes);
  // Above 0 and finite.
  ShapeCheck& Positive(absl::string_view what, float value);

  // OK, or INVALID_ARGUMENT with kernel, value and limit.
  const absl::Status& status() const { return status_; }

 private:
  absl::string_view kernel_;
  absl::Status status_;
};

// Whether 16-byte accesses are legal at every pointer and row: strides and columns in elements.
inline bool IsAligned16(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % 16 == 0;
}

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_KERNELS_SHAPE_CHECK_H_
