#include "scheduler/text/tokenizer_nfc.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "common/check.h"
#include "scheduler/text/utf8.h"

namespace octavo {
namespace {

constexpr auto kForm = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);

// U+11A7, one before the first trailing consonant, composes with nothing; utf8proc 2.8 takes it for
// a trailing consonant and drops it. So text is composed in stretches between such code points.
constexpr utf8proc_int32_t kHangulBeforeTrailing = 0x11A7;

// Everything below U+0300 is in form C already, and starts with a byte below 0xCC.
bool SurelyNormal(absl::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char byte) { return static_cast<unsigned char>(byte) < 0xCC; });
}

utf8proc_propval_t CombiningClass(utf8proc_int32_t code_point) {
  return utf8proc_get_property(code_point)->combining_class;
}

}  // namespace

std::string NormalizeNfc(absl::string_view text) {
  if (SurelyNormal(text)) return std::string(text);

  std::vector<utf8proc_int32_t> points;
  points.reserve(text.size());
  for (size_t offset = 0; offset < text.size(); offset += Utf8SequenceLength(text[offset])) {
    utf8proc_int32_t parts[8];  // Unicode's canonical decompositions have at most 4
    int boundary_class = 0;
    const utf8proc_ssize_t count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(DecodeUtf8At(text, offset)), parts, 8,
                                kForm, &boundary_class);
    OCTAVO_CHECK(count >= 0 && count <= 8, "decomposition of ", count);
    points.insert(points.end(), parts, parts + count);
  }
  // Canonical ordering. utf8proc_map sorts a run of marks in quadratic time, which a client could
  // exploit, so the runs are sorted here.
  const auto is_mark = [](utf8proc_int32_t point) { return CombiningClass(point) != 0; };
  for (auto run = std::find_if(points.begin(), points.end(), is_mark); run != points.end();) {
    const auto end = std::find_if_not(run, points.end(), is_mark);
    std::stable_sort(run, end, [](utf8proc_int32_t a, utf8proc_int32_t b) {
      return CombiningClass(a) < CombiningClass(b);
    });
    run = std::find_if(end, points.end(), is_mark);
  }
  std::string result;
  result.reserve(text.size());
  for (size_t begin = 0; begin < points.size();) {
    const size_t end =
        std::find(points.begin() + begin, points.end(), kHangulBeforeTrailing) - points.begin();
    const utf8proc_ssize_t composed = utf8proc_normalize_utf32(
        points.data() + begin, static_cast<utf8proc_ssize_t>(end - begin), kForm);
    OCTAVO_CHECK(composed >= 0, utf8proc_errmsg(composed));
    for (utf8proc_ssize_t i = 0; i < composed; ++i) {
      AppendUtf8(static_cast<uint32_t>(points[begin + i]), &result);
    }
    if (end < points.size()) AppendUtf8(kHangulBeforeTrailing, &result);
    begin = end + 1;
  }
  return result;
}

}  // namespace octavo
