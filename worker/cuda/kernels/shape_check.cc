#include "worker/cuda/kernels/shape_check.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace octavo::cuda {

ShapeCheck& ShapeCheck::Between(absl::string_view what, int64_t value, int64_t least,
                                int64_t most) {
  if (status_.ok() && (value < least || value > most))
    status_ = absl::InvalidArgumentError(absl::StrCat(
        kernel_, ": ", what, " is ", value, "; it must be between ", least, " and ", most));
  return *this;
}

ShapeCheck& ShapeCheck::AtLeast(absl::string_view what, int64_t value, int64_t least) {
  if (status_.ok() && value < least)
    status_ = absl::InvalidArgumentError(
        absl::StrCat(kernel_, ": ", what, " is ", value, "; it must be at least ", least));
  return *this;
}

ShapeCheck& ShapeCheck::MultipleOf(absl::string_view what, int64_t value, int64_t divisor) {
  if (status_.ok() && value % divisor != 0)
    status_ = absl::InvalidArgumentError(
        absl::StrCat(kernel_, ": ", what, " is ", value, "; it must be a multiple of ", divisor));
  return *this;
}

ShapeCheck& ShapeCheck::NotNull(absl::string_view what, const void* pointer) {
  if (status_.ok() && pointer == nullptr)
    status_ = absl::InvalidArgumentError(absl::StrCat(kernel_, ": ", what, " is missing"));
  return *this;
}

ShapeCheck& ShapeCheck::Aligned(absl::string_view what, const void* pointer, int64_t bytes) {
  NotNull(what, pointer);
  const auto address = static_cast<int64_t>(reinterpret_cast<uintptr_t>(pointer));
  if (status_.ok() && address % bytes != 0)
    status_ = absl::InvalidArgumentError(absl::StrCat(kernel_, ": ", what, " is ", address % bytes,
                                                      " bytes past a multiple of ", bytes,
                                                      "; it must be aligned to that"));
  return *this;
}

ShapeCheck& ShapeCheck::Positive(absl::string_view what, float value) {
  if (status_.ok() && !(std::isfinite(value) && value > 0))
    status_ = absl::InvalidArgumentError(
        absl::StrCat(kernel_, ": ", what, " is ", value, "; it must be above 0"));
  return *this;
}

}  // namespace octavo::cuda
