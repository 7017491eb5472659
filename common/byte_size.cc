#include "common/byte_size.h"

#include <cmath>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace octavo {
namespace {

struct Unit {
  absl::string_view suffix;
  double bytes;
};
constexpr Unit kUnits[] = {
    {"TiB", 1099511627776.0},
    {"GiB", 1073741824.0},
    {"MiB", 1048576.0},
    {"KiB", 1024.0},
    {"TB", 1e12},
    {"GB", 1e9},
    {"MB", 1e6},
    {"KB", 1e3},
    {"kB", 1e3},
    {"B", 1.0},
    {"", 1.0},
};

}  // namespace

absl::StatusOr<int64_t> ParseByteSize(absl::string_view text) {
  const absl::string_view trimmed = absl::StripAsciiWhitespace(text);
  size_t end = 0;
  while (end < trimmed.size() && (absl::ascii_isdigit(trimmed[end]) || trimmed[end] == '.')) ++end;
  const absl::string_view suffix = absl::StripLeadingAsciiWhitespace(trimmed.substr(end));
  double number = 0;
  if (end > 0 && absl::SimpleAtod(trimmed.substr(0, end), &number)) {
    for (const Unit& unit : kUnits) {
      if (suffix != unit.suffix) continue;
      const double bytes = number * unit.bytes;
      if (bytes >= static_cast<double>(std::numeric_limits<int64_t>::max())) break;
      return static_cast<int64_t>(bytes);
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", text,
      "\" is not a byte size; write a number with B, KiB, MiB, GiB, TiB, KB, MB, GB or TB"));
}

std::string FormatByteSize(int64_t bytes) {
  for (int unit = 0; unit < 4; ++unit)
    if (static_cast<double>(bytes) >= kUnits[unit].bytes)
      return absl::StrFormat("%.1f %s", static_cast<double>(bytes) / kUnits[unit].bytes,
                             kUnits[unit].suffix);
  return absl::StrCat(bytes, " B");
}

bool AbslParseFlag(absl::string_view text, ByteSize* size, std::string* error) {
  const absl::StatusOr<int64_t> bytes = ParseByteSize(text);
  if (!bytes.ok()) {
    *error = std::string(bytes.status().message());
    return false;
  }
  size->bytes = *bytes;
  return true;
}

std::string AbslUnparseFlag(const ByteSize& size) { return absl::StrCat(size.bytes); }

}  // namespace octavo
