// Checking UTF-8 and repairing it the way Unicode recommends (chapter 3.9, "U+FFFD Substitution of
// Maximal Subparts"), which is also what Python's errors="replace" does.
#ifndef OCTAVO_SCHEDULER_TEXT_UTF8_H_
#define OCTAVO_SCHEDULER_TEXT_UTF8_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace octavo {

// Offset of the first byte that is not part of a well-formed sequence; nullopt when all of `text`
// is UTF-8. Surrogates, overlong forms and code points past U+10FFFF are not well-formed.
std::optional<size_t> FindInvalidUtf8(absl::string_view text);

// Appends `bytes` to `out` with each maximal ill-formed subpart replaced by U+FFFD, but stops
// before an ill-formed subpart at the end that further bytes could still complete. Returns the
// length of that rest: 0 to 3 bytes.
size_t AppendUtf8Prefix(absl::string_view bytes, std::string* out);

// All of `bytes`, each maximal ill-formed subpart replaced by U+FFFD.
std::string RepairUtf8(absl::string_view bytes);

// Appends the encoding of `code_point`. REQUIRES: a Unicode scalar value.
void AppendUtf8(uint32_t code_point, std::string* out);

// Length of the sequence that starts with `first` in well-formed text: 1 to 4.
constexpr size_t Utf8SequenceLength(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

// The code point that starts at `offset`. REQUIRES: well-formed there.
uint32_t DecodeUtf8At(absl::string_view text, size_t offset);

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_TEXT_UTF8_H_
