// Any bytes, any ids: nothing crashes, and what comes back is UTF-8 and consistent.
#include "tests/scheduler/text/tokenizer_fuzz.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "scheduler/text/stream_decoder.h"
#include "scheduler/text/tokenizer.h"
#include "scheduler/text/tokenizer_nfc.h"
#include "scheduler/text/utf8.h"
#include "tests/scheduler/text/tokenizer_test_spec.h"

namespace octavo {
namespace {

std::vector<std::unique_ptr<Tokenizer>> MakeTokenizers() {
  std::vector<std::unique_ptr<Tokenizer>> tokenizers;
  for (const char* name : {"default", "gpt-2", "smollm", "llama-bpe", "qwen2", "tekken"}) {
    TokenizerSpec spec = TestSpec();
    spec.pre_name = name;
    spec.ignore_merges = tokenizers.size() % 2 == 1;
    tokenizers.push_back(*Tokenizer::Create(spec));
  }
  // Pieces: every byte, one character for itself, merges over spaces.
  TokenizerSpec spec;
  spec.model = TokenizerModel::kPieces;
  for (int byte = 0; byte < 256; ++byte) {
    spec.byte_tokens.emplace_back(static_cast<uint8_t>(byte), byte);
    spec.tokens.push_back(absl::StrCat("byte ", byte));
    spec.scores.push_back(-1000);
  }
  for (const char* piece : {"a", "\u2581", "\u2581a", "aa", "a\u2581", "\u00e9", "\u2581\u2581a"}) {
    spec.tokens.push_back(piece);
    spec.scores.push_back(-static_cast<float>(spec.tokens.size() % 3));
  }
  spec.added.push_back({static_cast<TokenId>(spec.tokens.size()), "<|end|>", true});
  spec.tokens.push_back("<|end|>");
  spec.scores.push_back(0);
  tokenizers.push_back(*Tokenizer::Create(spec));
  return tokenizers;
}

void CheckStream(const Tokenizer& tokenizer, const std::vector<TokenId>& ids, bool skip_special) {
  StreamDecoder decoder(&tokenizer, skip_special);
  std::string text;
  for (const TokenId id : ids) text += decoder.Push(id);
  text += decoder.Finish();
  OCTAVO_CHECK(text == tokenizer.Decode(ids, skip_special));
  OCTAVO_CHECK(!FindInvalidUtf8(text));
}

}  // namespace

void FuzzTokenizer(absl::string_view data) {
  static const auto* const tokenizers =
      new std::vector<std::unique_ptr<Tokenizer>>(MakeTokenizers());
  if (data.empty()) return;
  const auto choice = static_cast<unsigned char>(data[0]);
  const Tokenizer& tokenizer = *(*tokenizers)[choice % tokenizers->size()];
  const bool parse_special = (choice & 0x80) != 0;
  const absl::string_view raw = data.substr(1);

  std::vector<TokenId> random_ids;
  for (const char byte : raw)
    random_ids.push_back(static_cast<unsigned char>(byte) + choice % 20 - 1);
  CheckStream(tokenizer, random_ids, parse_special);

  // The vocabulary has every byte, so that text comes back as it went in.
  const std::string text = RepairUtf8(raw);
  const auto raw_ids = tokenizer.Encode(raw, parse_special);
  OCTAVO_CHECK(raw_ids.ok() == (text == raw));
  const auto ids = tokenizer.Encode(text, parse_special);
  OCTAVO_CHECK(ids.ok(), ids.status().ToString());
  // Pieces do not tell U+2581 from a space.
  OCTAVO_CHECK(tokenizer.Decode(*ids, /*skip_special=*/false) == text ||
               (absl::StrContains(text, "\u2581") && &tokenizer == tokenizers->back().get()));
  CheckStream(tokenizer, *ids, !parse_special);
  if (!parse_special) {
    for (const TokenId id : *ids) OCTAVO_CHECK(!tokenizer.IsSpecial(id));
  }

  // Cut anywhere, segments give what the whole gives.
  const size_t cut = choice % (text.size() + 1);
  const TextSegment segments[] = {{absl::string_view(text).substr(0, cut), parse_special},
                                  {absl::string_view(text).substr(cut), parse_special}};
  OCTAVO_CHECK(tokenizer.EncodeSegments(segments).value() == *ids);

  const std::string normal = NormalizeNfc(text);
  OCTAVO_CHECK(!FindInvalidUtf8(normal));
  OCTAVO_CHECK(NormalizeNfc(normal) == normal);
}

}  // namespace octavo

#ifdef OCTAVO_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  octavo::FuzzTokenizer(absl::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
#endif
