#include "scheduler/text/jinja_unicode.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <locale.h>
#include <pcre2.h>
#include <string.h>
#include <wctype.h>

#include <algorithm>
#include <iterator>

#include "common/check.h"
#include "scheduler/text/utf8.h"

namespace octavo::jinja {
namespace {

// Code points whose upper or title case is more than one (Unicode 14, SpecialCasing.txt, the
// unconditional part). An empty title case means: the simple mapping.
struct SpecialCase {
  uint32_t code_point;
  const char16_t* upper;
  const char16_t* title;
};
constexpr SpecialCase kSpecialCases[] = {
    {0xDF, u"SS", u"Ss"},
    {0x149, u"\u02BCN", u"\u02BCN"},
    {0x1F0, u"J\u030C", u"J\u030C"},
    {0x390, u"\u0399\u0308\u0301", u"\u0399\u0308\u0301"},
    {0x3B0, u"\u03A5\u0308\u0301", u"\u03A5\u0308\u0301"},
    {0x587, u"\u0535\u0552", u"\u0535\u0582"},
    {0x1E96, u"H\u0331", u"H\u0331"},
    {0x1E97, u"T\u0308", u"T\u0308"},
    {0x1E98, u"W\u030A", u"W\u030A"},
    {0x1E99, u"Y\u030A", u"Y\u030A"},
    {0x1E9A, u"A\u02BE", u"A\u02BE"},
    {0x1F50, u"\u03A5\u0313", u"\u03A5\u0313"},
    {0x1F52, u"\u03A5\u0313\u0300", u"\u03A5\u0313\u0300"},
    {0x1F54, u"\u03A5\u0313\u0301", u"\u03A5\u0313\u0301"},
    {0x1F56, u"\u03A5\u0313\u0342", u"\u03A5\u0313\u0342"},
    {0x1F80, u"\u1F08\u0399", u""},
    {0x1F81, u"\u1F09\u0399", u""},
    {0x1F82, u"\u1F0A\u0399", u""},
    {0x1F83, u"\u1F0B\u0399", u""},
    {0x1F84, u"\u1F0C\u0399", u""},
    {0x1F85, u"\u1F0D\u0399", u""},
    {0x1F86, u"\u1F0E\u0399", u""},
    {0x1F87, u"\u1F0F\u0399", u""},
    {0x1F88, u"\u1F08\u0399", u""},
    {0x1F89, u"\u1F09\u0399", u""},
    {0x1F8A, u"\u1F0A\u0399", u""},
    {0x1F8B, u"\u1F0B\u0399", u""},
    {0x1F8C, u"\u1F0C\u0399", u""},
    {0x1F8D, u"\u1F0D\u0399", u""},
    {0x1F8E, u"\u1F0E\u0399", u""},
    {0x1F8F, u"\u1F0F\u0399", u""},
    {0x1F90, u"\u1F28\u0399", u""},
    {0x1F91, u"\u1F29\u0399", u""},
    {0x1F92, u"\u1F2A\u0399", u""},
    {0x1F93, u"\u1F2B\u0399", u""},
    {0x1F94, u"\u1F2C\u0399", u""},
    {0x1F95, u"\u1F2D\u0399", u""},
    {0x1F96, u"\u1F2E\u0399", u""},
    {0x1F97, u"\u1F2F\u0399", u""},
    {0x1F98, u"\u1F28\u0399", u""},
    {0x1F99, u"\u1F29\u0399", u""},
    {0x1F9A, u"\u1F2A\u0399", u""},
    {0x1F9B, u"\u1F2B\u0399", u""},
    {0x1F9C, u"\u1F2C\u0399", u""},
    {0x1F9D, u"\u1F2D\u0399", u""},
    {0x1F9E, u"\u1F2E\u0399", u""},
    {0x1F9F, u"\u1F2F\u0399", u""},
    {0x1FA0, u"\u1F68\u0399", u""},
    {0x1FA1, u"\u1F69\u0399", u""},
    {0x1FA2, u"\u1F6A\u0399", u""},
    {0x1FA3, u"\u1F6B\u0399", u""},
    {0x1FA4, u"\u1F6C\u0399", u""},
    {0x1FA5, u"\u1F6D\u0399", u""},
    {0x1FA6, u"\u1F6E\u0399", u""},
    {0x1FA7, u"\u1F6F\u0399", u""},
    {0x1FA8, u"\u1F68\u0399", u""},
    {0x1FA9, u"\u1F69\u0399", u""},
    {0x1FAA, u"\u1F6A\u0399", u""},
    {0x1FAB, u"\u1F6B\u0399", u""},
    {0x1FAC, u"\u1F6C\u0399", u""},
    {0x1FAD, u"\u1F6D\u0399", u""},
    {0x1FAE, u"\u1F6E\u0399", u""},
    {0x1FAF, u"\u1F6F\u0399", u""},
    {0x1FB2, u"\u1FBA\u0399", u"\u1FBA\u0345"},
    {0x1FB3, u"\u0391\u0399", u""},
    {0x1FB4, u"\u0386\u0399", u"\u0386\u0345"},
    {0x1FB6, u"\u0391\u0342", u"\u0391\u0342"},
    {0x1FB7, u"\u0391\u0342\u0399", u"\u0391\u0342\u0345"},
    {0x1FBC, u"\u0391\u0399", u""},
    {0x1FC2, u"\u1FCA\u0399", u"\u1FCA\u0345"},
    {0x1FC3, u"\u0397\u0399", u""},
    {0x1FC4, u"\u0389\u0399", u"\u0389\u0345"},
    {0x1FC6, u"\u0397\u0342", u"\u0397\u0342"},
    {0x1FC7, u"\u0397\u0342\u0399", u"\u0397\u0342\u0345"},
    {0x1FCC, u"\u0397\u0399", u""},
    {0x1FD2, u"\u0399\u0308\u0300", u"\u0399\u0308\u0300"},
    {0x1FD3, u"\u0399\u0308\u0301", u"\u0399\u0308\u0301"},
    {0x1FD6, u"\u0399\u0342", u"\u0399\u0342"},
    {0x1FD7, u"\u0399\u0308\u0342", u"\u0399\u0308\u0342"},
    {0x1FE2, u"\u03A5\u0308\u0300", u"\u03A5\u0308\u0300"},
    {0x1FE3, u"\u03A5\u0308\u0301", u"\u03A5\u0308\u0301"},
    {0x1FE4, u"\u03A1\u0313", u"\u03A1\u0313"},
    {0x1FE6, u"\u03A5\u0342", u"\u03A5\u0342"},
    {0x1FE7, u"\u03A5\u0308\u0342", u"\u03A5\u0308\u0342"},
    {0x1FF2, u"\u1FFA\u0399", u"\u1FFA\u0345"},
    {0x1FF3, u"\u03A9\u0399", u""},
    {0x1FF4, u"\u038F\u0399", u"\u038F\u0345"},
    {0x1FF6, u"\u03A9\u0342", u"\u03A9\u0342"},
    {0x1FF7, u"\u03A9\u0342\u0399", u"\u03A9\u0342\u0345"},
    {0x1FFC, u"\u03A9\u0399", u""},
    {0xFB00, u"FF", u"Ff"},
    {0xFB01, u"FI", u"Fi"},
    {0xFB02, u"FL", u"Fl"},
    {0xFB03, u"FFI", u"Ffi"},
    {0xFB04, u"FFL", u"Ffl"},
    {0xFB05, u"ST", u"St"},
    {0xFB06, u"ST", u"St"},
    {0xFB13, u"\u0544\u0546", u"\u0544\u0576"},
    {0xFB14, u"\u0544\u0535", u"\u0544\u0565"},
    {0xFB15, u"\u0544\u053B", u"\u0544\u056B"},
    {0xFB16, u"\u054E\u0546", u"\u054E\u0576"},
    {0xFB17, u"\u0544\u053D", u"\u0544\u056D"},
};

constexpr uint32_t kCapitalSigma = 0x3A3;
constexpr uint32_t kFinalSigma = 0x3C2;

// glibc's own table of simple mappings, whatever the process's locale is.
locale_t Utf8Locale() {
  static const locale_t locale = [] {
    const locale_t made = newlocale(LC_CTYPE_MASK, "C.UTF-8", locale_t{});
    OCTAVO_CHECK(made != locale_t{}, "the C library has no C.UTF-8 locale");
    return made;
  }();
  return locale;
}

const SpecialCase* FindSpecial(uint32_t code_point) {
  const auto* it = std::lower_bound(
      std::begin(kSpecialCases), std::end(kSpecialCases), code_point,
      [](const SpecialCase& special, uint32_t value) { return special.code_point < value; });
  return it != std::end(kSpecialCases) && it->code_point == code_point ? it : nullptr;
}

void AppendUnits(const char16_t* units, std::string* out) {
  for (; *units != 0; ++units) AppendUtf8(*units, out);  // all in the basic plane
}

void AppendUpper(uint32_t c, std::string* out) {
  if (const SpecialCase* special = FindSpecial(c)) return AppendUnits(special->upper, out);
  AppendUtf8(towupper_l(c, Utf8Locale()), out);
}

void AppendTitle(uint32_t c, std::string* out) {
  static const wctrans_t to_title = wctrans_l("totitle", Utf8Locale());
  const SpecialCase* special = FindSpecial(c);
  if (special != nullptr && special->title[0] != 0) return AppendUnits(special->title, out);
  AppendUtf8(towctrans_l(c, to_title, Utf8Locale()), out);
}

bool IsLower(uint32_t c) { return iswlower_l(c, Utf8Locale()) != 0; }
bool IsUpper(uint32_t c) { return iswupper_l(c, Utf8Locale()) != 0; }
bool IsCased(uint32_t c) { return IsLower(c) || IsUpper(c); }

// `offset` is c's place in text: a capital sigma at the end of a word becomes a final sigma.
void AppendLower(uint32_t c, absl::string_view text, size_t offset, std::string* out) {
  if (c == kCapitalSigma) {
    const absl::string_view before = text.substr(0, offset);
    const size_t after = offset + Utf8SequenceLength(text[offset]);
    const bool word_before =
        !before.empty() && IsCased(DecodeUtf8At(before, before.size() - LastLength(before)));
    const bool word_after = after < text.size() && IsCased(DecodeUtf8At(text, after));
    return AppendUtf8(word_before && !word_after ? kFinalSigma : kFinalSigma + 1, out);
  }
  if (c == 0x130) return AppendUnits(u"i\u0307", out);
  AppendUtf8(towlower_l(c, Utf8Locale()), out);
}

// Calls visit(code_point, offset) for each code point.
template <typename Visit>
void ForEachCodePoint(absl::string_view text, Visit visit) {
  for (size_t at = 0; at < text.size(); at += Utf8SequenceLength(text[at])) {
    visit(DecodeUtf8At(text, at), at);
  }
}

// A compiled pattern for searching; lives as long as the process.
class Pattern {
 public:
  explicit Pattern(const char* pattern) {
    int error = 0;
    PCRE2_SIZE offset = 0;
    code_ = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern), PCRE2_ZERO_TERMINATED,
                          PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK, &error, &offset, nullptr);
    OCTAVO_CHECK(code_ != nullptr, "pattern ", pattern, " does not compile: ", error);
  }

  // Offset of the first match at or after `from`; text.size() when there is none.
  size_t Find(absl::string_view text, size_t from) const {
    pcre2_match_data* match = pcre2_match_data_create(1, nullptr);
    const int found = pcre2_match(code_, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                                  from, PCRE2_NO_UTF_CHECK, match, nullptr);
    const size_t at = found > 0 ? pcre2_get_ovector_pointer(match)[0] : text.size();
    pcre2_match_data_free(match);
    return at;
  }

 private:
  pcre2_code* code_ = nullptr;
};

}  // namespace

size_t CountCodePoints(absl::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
}

size_t OffsetOf(absl::string_view text, size_t index) {
  size_t at = 0;
  for (; index > 0 && at < text.size(); --index) at += Utf8SequenceLength(text[at]);
  return at;
}

size_t LastLength(absl::string_view text) {
  size_t length = 1;
  while (length < text.size() && (text[text.size() - length] & 0xC0) == 0x80) ++length;
  return length;
}

size_t FindText(absl::string_view text, absl::string_view wanted, size_t from) {
  if (from > text.size() || wanted.size() > text.size() - from) return absl::string_view::npos;
  if (wanted.empty()) return from;
  const void* found = memmem(text.data() + from, text.size() - from, wanted.data(), wanted.size());
  if (found == nullptr) return absl::string_view::npos;
  return static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

bool IsSpace(uint32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x1F);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

size_t LeadingSpace(absl::string_view text) {
  size_t at = 0;
  while (at < text.size() && IsSpace(DecodeUtf8At(text, at))) at += Utf8SequenceLength(text[at]);
  return at;
}

size_t TrailingSpace(absl::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    const size_t length = LastLength(text.substr(0, end));
    if (!IsSpace(DecodeUtf8At(text, end - length))) break;
    end -= length;
  }
  return text.size() - end;
}

size_t LineBreakAt(absl::string_view text, size_t offset) {
  const uint32_t c = DecodeUtf8At(text, offset);
  if (c == '\r') return offset + 1 < text.size() && text[offset + 1] == '\n' ? 2 : 1;
  if ((c >= 10 && c <= 12) || (c >= 0x1C && c <= 0x1E)) return 1;
  return c == 0x85 || c == 0x2028 || c == 0x2029 ? Utf8SequenceLength(text[offset]) : 0;
}

std::string ToUpper(absl::string_view text) {
  std::string out;
  out.reserve(text.size());
  ForEachCodePoint(text, [&](uint32_t c, size_t) { AppendUpper(c, &out); });
  return out;
}

std::string ToLower(absl::string_view text) {
  std::string out;
  out.reserve(text.size());
  ForEachCodePoint(text, [&](uint32_t c, size_t at) { AppendLower(c, text, at, &out); });
  return out;
}

std::string Capitalize(absl::string_view text) {
  std::string out;
  ForEachCodePoint(text, [&](uint32_t c, size_t at) {
    at == 0 ? AppendTitle(c, &out) : AppendLower(c, text, at, &out);
  });
  return out;
}

std::string ToTitle(absl::string_view text) {
  std::string out;
  bool in_word = false;
  ForEachCodePoint(text, [&](uint32_t c, size_t at) {
    in_word ? AppendLower(c, text, at, &out) : AppendTitle(c, &out);
    in_word = IsCased(c);
  });
  return out;
}

std::string SwapCase(absl::string_view text) {
  std::string out;
  ForEachCodePoint(text, [&](uint32_t c, size_t at) {
    if (IsUpper(c)) return AppendLower(c, text, at, &out);
    IsLower(c) ? AppendUpper(c, &out) : AppendUtf8(c, &out);
  });
  return out;
}

bool AllOfClass(absl::string_view text, CharClass char_class) {
  if (text.empty()) return false;
  const auto none = [&](const Pattern& pattern) { return pattern.Find(text, 0) == text.size(); };
  static const Pattern no_alpha("\\P{L}");
  static const Pattern no_decimal("\\P{Nd}");
  static const Pattern no_digit(
      "[^\\p{Nd}\\x{B2}\\x{B3}\\x{B9}\\x{2070}\\x{2074}-\\x{2079}\\x{2080}-\\x{2089}]");
  static const Pattern no_number("\\P{N}");
  static const Pattern no_alnum("[^\\p{L}\\p{N}]");
  static const Pattern upper("[\\p{Uppercase}\\p{Lt}]");
  static const Pattern lower("[\\p{Lowercase}\\p{Lt}]");
  switch (char_class) {
    case CharClass::kAlpha:
      return none(no_alpha);
    case CharClass::kDecimal:
      return none(no_decimal);
    case CharClass::kDigit:
      return none(no_digit);
    case CharClass::kNumeric:
      return none(no_number);
    case CharClass::kAlnum:
      return none(no_alnum);
    case CharClass::kSpace:
      return LeadingSpace(text) == text.size();
    case CharClass::kLower:
      return none(upper) && !none(lower);
    case CharClass::kUpper:
      return none(lower) && !none(upper);
  }
  return false;
}

size_t FindUnprintable(absl::string_view text, size_t from) {
  static const Pattern unprintable("[\\p{C}\\p{Zl}\\p{Zp}]|(?! )\\p{Zs}");
  return unprintable.Find(text, from);
}

}  // namespace octavo::jinja
