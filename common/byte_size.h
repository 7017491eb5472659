// Byte counts as people write them: "512MiB", "4GiB", "2GB", "1048576".
#ifndef OCTAVO_COMMON_BYTE_SIZE_H_
#define OCTAVO_COMMON_BYTE_SIZE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace octavo {

// Units: none or B; KiB, MiB, GiB, TiB (1024); KB, MB, GB, TB (1000). Fractions are allowed:
// "1.5GiB". INVALID_ARGUMENT for anything else, negative numbers and overflow.
absl::StatusOr<int64_t> ParseByteSize(absl::string_view text);

// The largest binary unit, one decimal: "93.8 MiB".
std::string FormatByteSize(int64_t bytes);

// A flag value of this kind (absl flags find AbslParseFlag by name).
struct ByteSize {
  int64_t bytes = 0;
};
bool AbslParseFlag(absl::string_view text, ByteSize* size, std::string* error);
std::string AbslUnparseFlag(const ByteSize& size);

}  // namespace octavo

#endif  // OCTAVO_COMMON_BYTE_SIZE_H_
