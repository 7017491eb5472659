// A small vocabulary by hand: all single bytes, a few merges, special and plain added tokens.
#ifndef OCTAVO_TESTS_SCHEDULER_TEXT_TOKENIZER_TEST_SPEC_H_
#define OCTAVO_TESTS_SCHEDULER_TEXT_TOKENIZER_TEST_SPEC_H_

#include <string>

#include "absl/strings/string_view.h"
#include "common/checkpoint/tokenizer_spec.h"
#include "scheduler/text/bpe_alphabet.h"

namespace octavo {

// Token b is byte b. Then come the merges' results, then the added tokens.
inline TokenizerSpec TestSpec() {
  TokenizerSpec spec;
  for (int byte = 0; byte < 256; ++byte) {
    const char value = static_cast<char>(byte);
    spec.tokens.push_back(AlphabetOfBytes(absl::string_view(&value, 1)));
  }
  const auto merge = [&](absl::string_view left, absl::string_view right) {
    spec.merges.emplace_back(AlphabetOfBytes(left), AlphabetOfBytes(right));
    spec.tokens.push_back(spec.merges.back().first + spec.merges.back().second);
  };
  merge("a", "a");            // 256
  merge("aa", "aa");          // 257
  merge("h", "e");            // 258
  merge("l", "l");            // 259
  merge("he", "ll");          // 260
  merge("hell", "o");         // 261
  merge(" ", "hello");        // 262
  merge("\xF0", "\x9F");      // 263
  merge("\xF0\x9F", "\x98");  // 264: three bytes of an emoji
  merge(" ", " ");            // 265
  const auto add = [&](absl::string_view text, bool special) {
    spec.added.push_back({static_cast<TokenId>(spec.tokens.size()), std::string(text), special});
    spec.tokens.emplace_back(text);
  };
  add("<|end|>", true);        // 266
  add("<|end|>!", true);       // 267
  add("<tool>", false);        // 268
  add("\u00e9\u00e9", false);  // 269: its text is no alphabet
  spec.pre_name = "gpt-2";
  spec.bos_id = 266;
  spec.eos_ids = {266, 267};
  return spec;
}

}  // namespace octavo

#endif  // OCTAVO_TESTS_SCHEDULER_TEXT_TOKENIZER_TEST_SPEC_H_
