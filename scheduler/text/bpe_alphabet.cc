#include "scheduler/text/bpe_alphabet.h"

#include <array>

#include "scheduler/text/utf8.h"

namespace octavo {
namespace {

// Bytes that stand for themselves: the printable ones of Latin-1. The others get U+0100 onwards in
// byte order (bytes_to_unicode in GPT-2's encoder.py).
constexpr bool StandsForItself(uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr uint32_t kFirstShifted = 0x100;
constexpr uint32_t kAlphabetEnd = 0x144;  // 68 bytes are shifted

struct Alphabet {
  std::array<uint16_t, 256> code_point{};    // by byte
  std::array<int16_t, kAlphabetEnd> byte{};  // by code point; -1: not in the alphabet
};

constexpr Alphabet MakeAlphabet() {
  Alphabet alphabet;
  for (int16_t& byte : alphabet.byte) byte = -1;
  uint32_t shifted = kFirstShifted;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const uint32_t code_point = StandsForItself(byte) ? byte : shifted++;
    alphabet.code_point[byte] = static_cast<uint16_t>(code_point);
    alphabet.byte[code_point] = static_cast<int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = MakeAlphabet();

}  // namespace

std::optional<std::string> BytesOfAlphabet(absl::string_view text) {
  if (FindInvalidUtf8(text)) return std::nullopt;
  std::string bytes;
  bytes.reserve(text.size());
  for (size_t offset = 0; offset < text.size(); offset += Utf8SequenceLength(text[offset])) {
    const uint32_t code_point = DecodeUtf8At(text, offset);
    if (code_point >= kAlphabetEnd || kAlphabet.byte[code_point] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kAlphabet.byte[code_point]));
  }
  return bytes;
}

std::string AlphabetOfBytes(absl::string_view bytes) {
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const char byte : bytes) {
    AppendUtf8(kAlphabet.code_point[static_cast<unsigned char>(byte)], &text);
  }
  return text;
}

}  // namespace octavo
