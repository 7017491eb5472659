// Literals of template expressions, and numbers in text as Python's int() and float() read them.
#ifndef OCTAVO_SCHEDULER_TEXT_JINJA_LITERALS_H_
#define OCTAVO_SCHEDULER_TEXT_JINJA_LITERALS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace octavo::jinja {

// Bytes of the literal or name at the start of `text`; 0 when there is none.
size_t FloatLength(absl::string_view text);
size_t IntegerLength(absl::string_view text);
size_t NameLength(absl::string_view text);

// REQUIRES: of the lengths above. INVALID_ARGUMENT past int64.
absl::Status ParseFloat(absl::string_view literal, double* value);
absl::Status ParseInteger(absl::string_view literal, int64_t* value);

// The text between the quotes of a string literal.
absl::Status UnescapeString(absl::string_view body, std::string* text);

// int(text, base) and float(text); nullopt where Python raises ValueError, or past int64.
std::optional<int64_t> IntFromText(absl::string_view text, int base);
std::optional<double> FloatFromText(absl::string_view text);

}  // namespace octavo::jinja

#endif  // OCTAVO_SCHEDULER_TEXT_JINJA_LITERALS_H_
