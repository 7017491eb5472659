#include "tests/scheduler/text/tokenizer_fuzz.h"

#include <iterator>
#include <random>
#include <string>

#include "gtest/gtest.h"

namespace octavo {
namespace {

TEST(TokenizerFuzz, SurvivesRandomBytesAndPieces) {
  const std::string pieces[] = {
      "<|end|>", "<|end|>!", "<tool>", "<|en",   "hello",        "  ",         "\r\n",
      "'ll",     "123",      "\u0301", "\u0316", "\u1112\u1161", "\u11a7",     "\xF0\x9F",
      "\x98",    "\xED\xA0", "\xC3",   "aaaa",   "\u180e",       "\U0001f600", "\u00c5"};
  for (unsigned seed = 0; seed < 20000; ++seed) {
    std::mt19937 random(seed);
    std::string data;
    for (size_t n = random() % 20; n > 0; --n) {
      if (random() % 2 == 0) {
        data += pieces[random() % std::size(pieces)];
      } else {
        data.push_back(static_cast<char>(random() % 256));
      }
    }
    SCOPED_TRACE(seed);
    FuzzTokenizer(data);
  }
}

}  // namespace
}  // namespace octavo
