#include "scheduler/text/jinja_literals.h"

#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/status_macros.h"
#include "scheduler/text/jinja_unicode.h"
#include "scheduler/text/utf8.h"

namespace octavo::jinja {
namespace {

int DigitValue(char c) {
  if (absl::ascii_isdigit(static_cast<unsigned char>(c))) return c - '0';
  if (absl::ascii_isalpha(static_cast<unsigned char>(c))) return absl::ascii_tolower(c) - 'a' + 10;
  return 99;
}

// Bytes of digits of `base` with single underscores between them, from `at`.
size_t DigitsLength(absl::string_view text, size_t at, int base, bool may_start_with_underscore) {
  size_t end = at;
  while (end < text.size()) {
    const bool underscore =
        text[end] == '_' && (end > at || may_start_with_underscore) && end + 1 < text.size();
    const size_t digit = underscore ? end + 1 : end;
    if (DigitValue(text[digit]) >= base) break;
    end = digit + 1;
  }
  return end - at;
}

// The value of `digits`, which may hold underscores; nullopt past int64.
std::optional<int64_t> Accumulate(absl::string_view digits, int base, bool negative) {
  int64_t value = 0;
  for (const char c : digits) {
    if (c == '_') continue;
    const int digit = negative ? -DigitValue(c) : DigitValue(c);
    if (__builtin_mul_overflow(value, int64_t{base}, &value)) return std::nullopt;
    if (__builtin_add_overflow(value, int64_t{digit}, &value)) return std::nullopt;
  }
  return value;
}

int BaseOfPrefix(absl::string_view text) {
  if (text.size() < 2 || text[0] != '0') return 10;
  switch (text[1]) {
    case 'b':
    case 'B':
      return 2;
    case 'o':
    case 'O':
      return 8;
    case 'x':
    case 'X':
      return 16;
    default:
      return 10;
  }
}

absl::string_view StripSpace(absl::string_view text) {
  text.remove_prefix(LeadingSpace(text));
  text.remove_suffix(TrailingSpace(text));
  return text;
}

// A \x, \u or \U escape whose `digits` hexadecimal digits start at `at`.
absl::Status AppendHexEscape(absl::string_view body, size_t at, size_t digits, std::string* text) {
  const absl::string_view hex = body.substr(at, digits);
  if (hex.size() < digits || DigitsLength(hex, 0, 16, false) != digits ||
      absl::StrContains(hex, '_')) {
    return absl::InvalidArgumentError("truncated escape in a string");
  }
  const int64_t value = *Accumulate(hex, 16, false);
  if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) {
    return absl::InvalidArgumentError(absl::StrCat("escape \\", hex, " is no character"));
  }
  AppendUtf8(static_cast<uint32_t>(value), text);
  return absl::OkStatus();
}

}  // namespace

size_t FloatLength(absl::string_view text) {
  size_t end = DigitsLength(text, 0, 10, false);
  if (end == 0) return 0;
  bool is_float = false;
  if (end + 1 < text.size() && text[end] == '.') {
    if (const size_t fraction = DigitsLength(text, end + 1, 10, false); fraction > 0) {
      end += 1 + fraction;
      is_float = true;
    }
  }
  if (end + 1 < text.size() && (text[end] == 'e' || text[end] == 'E')) {
    const size_t digits = end + 1 + (text[end + 1] == '+' || text[end + 1] == '-' ? 1 : 0);
    if (const size_t length = DigitsLength(text, digits, 10, false); length > 0) {
      end = digits + length;
      is_float = true;
    }
  }
  return is_float ? end : 0;
}

size_t IntegerLength(absl::string_view text) {
  const int base = BaseOfPrefix(text);
  if (base != 10) {
    if (const size_t digits = DigitsLength(text, 2, base, true); digits > 0) return 2 + digits;
  }
  if (text.empty() || DigitValue(text[0]) >= 10) return 0;
  // No leading zeros but in zero itself: "007" is 00 and then 7.
  return DigitsLength(text, 0, text[0] == '0' ? 1 : 10, false);
}

size_t NameLength(absl::string_view text) {
  size_t end = 0;
  while (end < text.size()) {
    const size_t length = Utf8SequenceLength(text[end]);
    const bool ascii_word =
        absl::ascii_isalnum(static_cast<unsigned char>(text[end])) || text[end] == '_';
    if (!ascii_word && (length == 1 || !AllOfClass(text.substr(end, length), CharClass::kAlnum))) {
      break;
    }
    end += length;
  }
  return end;
}

absl::Status ParseFloat(absl::string_view literal, double* value) {
  if (absl::SimpleAtod(absl::StrReplaceAll(literal, {{"_", ""}}), value)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("bad number ", literal));
}

absl::Status ParseInteger(absl::string_view literal, int64_t* value) {
  const int base = BaseOfPrefix(literal);
  const auto parsed = Accumulate(literal.substr(base == 10 ? 0 : 2), base, false);
  if (!parsed.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat("integer ", literal, " is over the limit of ",
                                                   std::numeric_limits<int64_t>::max()));
  }
  *value = *parsed;
  return absl::OkStatus();
}

absl::Status UnescapeString(absl::string_view body, std::string* text) {
  constexpr absl::string_view kLetters = "abfnrtv\\'\"";
  constexpr absl::string_view kValues = "\a\b\f\n\r\t\v\\'\"";
  text->clear();
  for (size_t at = 0; at < body.size(); ++at) {
    if (body[at] != '\\' || at + 1 == body.size()) {
      text->push_back(body[at]);
      continue;
    }
    const char c = body[++at];
    if (const size_t letter = kLetters.find(c); letter != absl::string_view::npos) {
      text->push_back(kValues[letter]);
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      OCTAVO_RETURN_IF_ERROR(AppendHexEscape(body, at + 1, digits, text));
      at += digits;
    } else if (DigitValue(c) < 8) {
      size_t end = at;
      while (end < body.size() && end < at + 3 && DigitValue(body[end]) < 8) ++end;
      AppendUtf8(static_cast<uint32_t>(*Accumulate(body.substr(at, end - at), 8, false)), text);
      at = end - 1;
    } else if (c == 'N') {
      return absl::InvalidArgumentError("\\N{...} escapes are not supported");
    } else if (c != '\n') {  // a backslash at the end of a line joins it with the next
      text->push_back('\\');
      text->push_back(c);
    }
  }
  return absl::OkStatus();
}

std::optional<int64_t> IntFromText(absl::string_view text, int base) {
  text = StripSpace(text);
  const bool negative = !text.empty() && text[0] == '-';
  if (negative || (!text.empty() && text[0] == '+')) text.remove_prefix(1);
  bool after_prefix = false;
  const int prefix = BaseOfPrefix(text);
  if (prefix != 10 && (base == 0 || base == prefix)) {
    text.remove_prefix(2);
    base = prefix;
    after_prefix = true;
  } else if (base == 0) {
    base = 10;
    if (text.size() > 1 && text[0] == '0' && DigitsLength(text, 0, 1, false) != text.size()) {
      return std::nullopt;
    }
  }
  if (text.empty() || DigitsLength(text, 0, base, after_prefix) != text.size()) {
    return std::nullopt;
  }
  return Accumulate(text, base, negative);
}

std::optional<double> FloatFromText(absl::string_view text) {
  text = StripSpace(text);
  absl::string_view digits = text;
  if (!digits.empty() && (digits[0] == '-' || digits[0] == '+')) digits.remove_prefix(1);
  // SimpleAtod also reads nan(...): Python does not.
  if (digits.empty() || absl::StrContains(digits, '(')) return std::nullopt;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (digits[i] != '_') continue;
    if (i == 0 || i + 1 == digits.size() || DigitValue(digits[i - 1]) > 9 ||
        DigitValue(digits[i + 1]) > 9) {
      return std::nullopt;
    }
  }
  double value = 0;
  if (!absl::SimpleAtod(absl::StrReplaceAll(text, {{"_", ""}}), &value)) return std::nullopt;
  return value;
}

}  // namespace octavo::jinja
