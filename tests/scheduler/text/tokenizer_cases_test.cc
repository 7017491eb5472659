// Small vocabularies against what Hugging Face `tokenizers` makes of the same texts;
// make_tokenizer_cases.py wrote them.
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "scheduler/text/tokenizer.h"

namespace octavo {
namespace {

using Json = nlohmann::json;

class TokenizerCases : public ::testing::TestWithParam<int> {};

Json LoadCases() {
  std::ifstream file(OCTAVO_SOURCE_DIR "/tests/scheduler/text/tokenizer_cases.json");
  return Json::parse(file);
}

TokenizerSpec SpecOf(const Json& vocabulary) {
  TokenizerSpec spec;
  spec.pre_name = vocabulary["name"];
  for (const Json& pattern : vocabulary["passes"]) spec.passes.push_back({pattern});
  spec.tokens = vocabulary["tokens"].get<std::vector<std::string>>();
  for (const Json& merge : vocabulary["merges"]) spec.merges.emplace_back(merge[0], merge[1]);
  for (const Json& added : vocabulary["added"]) {
    spec.added.push_back({added["id"], added["text"], added["special"]});
  }
  spec.normalize_nfc = vocabulary["nfc"];
  spec.ignore_merges = vocabulary["ignore_merges"];
  return spec;
}

TEST_P(TokenizerCases, GiveTheIdsAndTextsOfHuggingFace) {
  const Json vocabulary = LoadCases()[GetParam()];
  const auto tokenizer = Tokenizer::Create(SpecOf(vocabulary));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  ASSERT_GT(vocabulary["cases"].size(), 50u);
  for (const Json& test : vocabulary["cases"]) {
    SCOPED_TRACE(test.dump());
    const auto text = test["text"].get<std::string>();
    const auto want = test["ids"].get<std::vector<TokenId>>();
    const Json& mode = test["parse_special"];  // null: the same either way
    for (const bool parse_special : {false, true}) {
      if (!mode.is_null() && mode.get<bool>() != parse_special) continue;
      const auto ids = (*tokenizer)->Encode(text, parse_special);
      ASSERT_TRUE(ids.ok()) << ids.status();
      EXPECT_EQ(*ids, want);
    }
    const auto text_or = [&](const char* key) {
      return test[key].is_null() ? text : test[key].get<std::string>();
    };
    EXPECT_EQ((*tokenizer)->Decode(want, /*skip_special=*/false), text_or("decoded"));
    EXPECT_EQ((*tokenizer)->Decode(want, /*skip_special=*/true), text_or("hidden"));
  }
}

// gpt-2, smollm without a byte, llama-bpe with whole pieces, qwen2 with NFC, tekken, own passes.
INSTANTIATE_TEST_SUITE_P(Vocabularies, TokenizerCases, ::testing::Range(0, 6));

}  // namespace
}  // namespace octavo
