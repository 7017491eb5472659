#include "scheduler/text/utf8.h"

#include <cstring>

namespace octavo {
namespace {

constexpr char kReplacement[] = "\xEF\xBF\xBD";  // U+FFFD

struct Subpart {
  size_t length = 0;  // >= 1: a whole sequence, or a maximal ill-formed subpart
  bool complete = false;
  bool cut = false;  // ill-formed only because the text ends here
};

// Classifies what starts at text[offset] by Unicode's table 3-7 (Well-Formed UTF-8 Byte Sequences).
Subpart Classify(absl::string_view text, size_t offset) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(offset);
  if (first < 0x80) return {.length = 1, .complete = true};
  if (first < 0xC2 || first > 0xF4) return {.length = 1};
  const size_t length = Utf8SequenceLength(text[offset]);
  // Only the second byte's range depends on the first.
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
  if (first == 0xE0) low = 0xA0;
  if (first == 0xED) high = 0x9F;
  if (first == 0xF0) low = 0x90;
  if (first == 0xF4) high = 0x8F;
  for (size_t i = 1; i < length; ++i) {
    if (offset + i == text.size()) return {.length = i, .cut = true};
    if (byte(offset + i) < low || byte(offset + i) > high) return {.length = i};
    low = 0x80;
    high = 0xBF;
  }
  return {.length = length, .complete = true};
}

// Length of the run of ASCII that starts at `offset`.
size_t AsciiRun(absl::string_view text, size_t offset) {
  size_t end = offset;
  while (end + 8 <= text.size()) {
    uint64_t word;
    std::memcpy(&word, text.data() + end, 8);
    if (word & 0x8080808080808080u) break;
    end += 8;
  }
  while (end < text.size() && static_cast<unsigned char>(text[end]) < 0x80) ++end;
  return end - offset;
}

}  // namespace

std::optional<size_t> FindInvalidUtf8(absl::string_view text) {
  for (size_t offset = AsciiRun(text, 0); offset < text.size(); offset += AsciiRun(text, offset)) {
    const Subpart part = Classify(text, offset);
    if (!part.complete) return offset;
    offset += part.length;
  }
  return std::nullopt;
}

size_t AppendUtf8Prefix(absl::string_view bytes, std::string* out) {
  size_t offset = 0;
  while (offset < bytes.size()) {
    const size_t ascii = AsciiRun(bytes, offset);
    out->append(bytes.data() + offset, ascii);
    offset += ascii;
    if (offset == bytes.size()) break;
    const Subpart part = Classify(bytes, offset);
    if (part.cut) return bytes.size() - offset;
    if (part.complete) {
      out->append(bytes.data() + offset, part.length);
    } else {
      out->append(kReplacement);
    }
    offset += part.length;
  }
  return 0;
}

std::string RepairUtf8(absl::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  if (AppendUtf8Prefix(bytes, &text) > 0) text.append(kReplacement);
  return text;
}

void AppendUtf8(uint32_t code_point, std::string* out) {
  const auto continuation = [&](int shift) {
    out->push_back(static_cast<char>(0x80 | ((code_point >> shift) & 0x3F)));
  };
  if (code_point < 0x80) {
    out->push_back(static_cast<char>(code_point));
  } else if (code_point < 0x800) {
    out->push_back(static_cast<char>(0xC0 | (code_point >> 6)));
    continuation(0);
  } else if (code_point < 0x10000) {
    out->push_back(static_cast<char>(0xE0 | (code_point >> 12)));
    continuation(6);
    continuation(0);
  } else {
    out->push_back(static_cast<char>(0xF0 | (code_point >> 18)));
    continuation(12);
    continuation(6);
    continuation(0);
  }
}

uint32_t DecodeUtf8At(absl::string_view text, size_t offset) {
  const auto bits = [&](size_t i) { return static_cast<uint32_t>(text[offset + i]) & 0x3F; };
  const auto first = static_cast<unsigned char>(text[offset]);
  switch (Utf8SequenceLength(text[offset])) {
    case 1:
      return first;
    case 2:
      return (first & 0x1Fu) << 6 | bits(1);
    case 3:
      return (first & 0x0Fu) << 12 | bits(1) << 6 | bits(2);
    default:
      return (first & 0x07u) << 18 | bits(1) << 12 | bits(2) << 6 | bits(3);
  }
}

}  // namespace octavo
