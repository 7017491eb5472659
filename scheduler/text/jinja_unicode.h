// Python's view of str: code points, Unicode white space, full case mappings, character classes.
// All texts are well-formed UTF-8.
#ifndef OCTAVO_SCHEDULER_TEXT_JINJA_UNICODE_H_
#define OCTAVO_SCHEDULER_TEXT_JINJA_UNICODE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace octavo::jinja {

// Number of code points: what len() says.
size_t CountCodePoints(absl::string_view text);
// Byte offset of code point `index`; text.size() when there are not so many.
size_t OffsetOf(absl::string_view text, size_t index);
// Length in bytes of the last code point. REQUIRES: not empty.
size_t LastLength(absl::string_view text);

// Offset of `wanted` at or after `from`, in time linear in the text; npos when absent.
size_t FindText(absl::string_view text, absl::string_view wanted, size_t from = 0);

// What str.isspace() and Python's \s call white space.
bool IsSpace(uint32_t code_point);
// Bytes of leading and trailing white space.
size_t LeadingSpace(absl::string_view text);
size_t TrailingSpace(absl::string_view text);
// Length in bytes of the line break (as str.splitlines() sees them) at `offset`; 0 when none.
size_t LineBreakAt(absl::string_view text, size_t offset);

std::string ToUpper(absl::string_view text);
std::string ToLower(absl::string_view text);
std::string Capitalize(absl::string_view text);  // first letter in title case, the rest lower
std::string ToTitle(absl::string_view text);     // str.title(): a word is a run of cased letters
std::string SwapCase(absl::string_view text);

enum class CharClass { kAlpha, kDecimal, kDigit, kNumeric, kAlnum, kSpace, kLower, kUpper };
// Bytes that could be copied in the time that these searches take for one.
inline constexpr size_t kClassSearchCost = 16;

// str.isalpha() and its kin; false for the empty string.
bool AllOfClass(absl::string_view text, CharClass char_class);

// Offset of the first character at or after `from` that repr() escapes for not being printable.
size_t FindUnprintable(absl::string_view text, size_t from);

}  // namespace octavo::jinja

#endif  // OCTAVO_SCHEDULER_TEXT_JINJA_UNICODE_H_
