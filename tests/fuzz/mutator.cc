#include "tests/fuzz/mutator.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace octavo {
namespace {

constexpr std::array<uint64_t, 14> kInteresting = {
    0,          1,          2,          7,          32,         255,
    65535,      0x7fffffff, 0xffffffff, 1ull << 32, 1ull << 61, 0x7fffffffffffffff,
    1ull << 63, ~0ull};
constexpr std::array<const char*, 12> kTokens = {
    "null", "-1",   "1e308",   "18446744073709551616", "[", "{", "]}", "\"\":", "\\u0000",
    "true", "\xff", "[[[[[[[["};

}  // namespace

size_t Mutator::Position(const std::string& text) {
  const size_t limit = Below(2) == 0 ? std::min<size_t>(text.size(), 2048) : text.size();
  return Below(limit);
}

void Mutator::Change(std::string* text) {
  if (text->empty()) return;
  const size_t at = Position(*text);
  const size_t length = std::min<size_t>(1 + Below(Below(4) == 0 ? 512 : 16), text->size() - at);
  switch (Below(8)) {
    case 0:
      (*text)[at] = static_cast<char>((*text)[at] ^ (1 << Below(8)));
      break;
    case 1:
      (*text)[at] = static_cast<char>(Below(256));
      break;
    case 2: {  // a number, often where one was
      const uint64_t value = kInteresting[Below(kInteresting.size())];
      const size_t size = std::min<size_t>(Below(2) == 0 ? 4 : 8, text->size() - at);
      std::memcpy(text->data() + at, &value, size);
      break;
    }
    case 3:
      text->erase(at, length);
      break;
    case 4:
      text->insert(Position(*text), text->substr(at, length));
      break;
    case 5:
      text->resize(at);
      break;
    case 6:
      text->insert(at, kTokens[Below(kTokens.size())]);
      break;
    case 7: {  // a piece of another seed
      const std::string& other = seeds_[Below(seeds_.size())];
      text->replace(at, length, other.substr(Position(other), length));
      break;
    }
  }
}

std::string Mutator::Mutate(size_t index) {
  std::string text = seeds_[index];
  for (uint64_t changes = 1 + Below(4); changes > 0; --changes) Change(&text);
  return text;
}

}  // namespace octavo
