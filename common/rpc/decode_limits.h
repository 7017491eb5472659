// Range checks that the codecs share: the value and the limit are in every error.
#ifndef OCTAVO_COMMON_RPC_DECODE_LIMITS_H_
#define OCTAVO_COMMON_RPC_DECODE_LIMITS_H_

#include <algorithm>
#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace octavo {

inline constexpr int64_t kInt32Max = std::numeric_limits<int32_t>::max();

// In [low, high], or an error "what is value; ...".
inline absl::StatusOr<int32_t> InRange(absl::string_view what, uint64_t value, int64_t low,
                                       int64_t high) {
  high = std::min(high, kInt32Max);
  if (value > static_cast<uint64_t>(std::max<int64_t>(high, 0)) ||
      static_cast<int64_t>(value) < low)
    return absl::InvalidArgumentError(
        absl::StrCat(what, " is ", value, "; it must be between ", low, " and ", high));
  return static_cast<int32_t>(value);
}

inline absl::Status CountWithin(absl::string_view what, int64_t count, int64_t limit) {
  if (count <= limit) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(count, " ", what, "; the limit is ", limit));
}

}  // namespace octavo

#endif  // OCTAVO_COMMON_RPC_DECODE_LIMITS_H_
