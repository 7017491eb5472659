// SentencePiece vocabularies: small ones that Google's sentencepiece trained, with its ids
// (make_piece_cases.py), and what it has no word for: segments, control tokens, streams.
#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "scheduler/text/stream_decoder.h"
#include "scheduler/text/tokenizer.h"

namespace octavo {
namespace {

using Ids = std::vector<TokenId>;
using Json = nlohmann::json;

// Types as in sentencepiece's proto: 2 unknown, 3 control, 4 user-defined, 6 byte.
TokenizerSpec SpecOf(const Json& vocabulary) {
  TokenizerSpec spec;
  spec.model = TokenizerModel::kPieces;
  for (const Json& piece : vocabulary["pieces"]) {
    const auto id = static_cast<TokenId>(spec.tokens.size());
    const auto text = piece[0].get<std::string>();
    spec.tokens.push_back(text);
    spec.scores.push_back(piece[1].get<float>());
    const int type = piece[2].get<int>();
    if (type == 2) spec.unknown_id = id;
    if (type == 3 || type == 4) spec.added.push_back({id, text, type == 3});
    if (type == 6) {
      spec.byte_tokens.emplace_back(static_cast<uint8_t>(std::stoi(text.substr(3, 2), nullptr, 16)),
                                    id);
    }
  }
  if (vocabulary["add_space_prefix"].get<bool>()) spec.space_prefix = SpacePrefix::kEach;
  return spec;
}

Json Vocabularies() {
  std::ifstream file(OCTAVO_SOURCE_DIR "/tests/scheduler/text/piece_cases.json");
  return Json::parse(file);
}

// The ids of `Spec` below are those of the pieces here.
TokenizerSpec Spec() {
  TokenizerSpec spec;
  spec.model = TokenizerModel::kPieces;
  spec.tokens = {"<unk>",  "</s>",   "<turn>", "\n\n",    "<0xE4>", "<0xB8>",
                 "<0xAD>", "\u2581", "a",      "\u2581a", "<0x61>", "\u2581\u2581"};
  spec.scores = {0, 0, 0, 0, 0, 0, 0, -3, -2, -1, 0, -9};
  spec.unknown_id = 0;
  spec.added = {
      {1, "</s>", true}, {2, "<turn>", true}, {3, "\n\n", false}, {11, "\u2581\u2581", false}};
  spec.byte_tokens = {{0xE4, 4}, {0xB8, 5}, {0xAD, 6}, {0x61, 10}};
  return spec;
}

Ids Encode(const TokenizerSpec& spec, absl::string_view text, bool parse_special = false) {
  const auto tokenizer = Tokenizer::Create(spec);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  const auto ids = (*tokenizer)->Encode(text, parse_special);
  EXPECT_TRUE(ids.ok()) << ids.status();
  return ids.value_or(Ids{});
}

TEST(TokenizerPieces, GivesTheIdsOfSentencePiece) {
  int cases = 0;
  for (const Json& vocabulary : Vocabularies()) {
    const auto tokenizer = Tokenizer::Create(SpecOf(vocabulary));
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    const std::string prefix = vocabulary["add_space_prefix"].get<bool>() ? " " : "";
    for (const Json& test : vocabulary["cases"]) {
      const auto text = test["text"].get<std::string>();
      const auto ids = (*tokenizer)->Encode(text, /*parse_special=*/false);
      ASSERT_TRUE(ids.ok()) << ids.status();
      EXPECT_EQ(*ids, test["ids"].get<Ids>()) << '"' << text << '"';
      std::string expected = text.empty() ? "" : prefix + text;
      for (size_t at; (at = expected.find("\u2581")) != std::string::npos;)
        expected.replace(at, 3, " ");
      EXPECT_EQ((*tokenizer)->Decode(*ids, /*skip_special=*/false), expected);
      ++cases;
    }
  }
  EXPECT_GT(cases, 80);
}

TEST(TokenizerPieces, PutsSpacesInFrontWhereTheModelWantsThem) {
  TokenizerSpec spec = Spec();
  EXPECT_EQ(Encode(spec, "a\n\na"), (Ids{8, 3, 8}));
  spec.space_prefix = SpacePrefix::kFirst;
  EXPECT_EQ(Encode(spec, "a\n\na"), (Ids{9, 3, 8}));
  EXPECT_EQ(Encode(spec, " a"), (Ids{9}));
  EXPECT_EQ(Encode(spec, "\n\na"), (Ids{3, 8}));
  spec.space_prefix = SpacePrefix::kEach;
  EXPECT_EQ(Encode(spec, "a\n\na"), (Ids{9, 3, 9}));
  EXPECT_EQ(Encode(spec, ""), Ids{});
}

TEST(TokenizerPieces, FindsUserDefinedSpacesAlsoWhereTheyAreWrittenOut) {
  EXPECT_EQ(Encode(Spec(), "a  a"), (Ids{8, 11, 8}));
  EXPECT_EQ(Encode(Spec(), "a\u2581\u2581a"), (Ids{8, 11, 8}));
  EXPECT_EQ(Encode(Spec(), "a \u2581a"), (Ids{8, 11, 8}));
}

TEST(TokenizerPieces, FindsControlTokensOnlyWhereTheyCount) {
  EXPECT_EQ(Encode(Spec(), "a<turn>a", /*parse_special=*/true), (Ids{8, 2, 8}));
  const Ids plain = Encode(Spec(), "a<turn>a");
  EXPECT_EQ(std::count(plain.begin(), plain.end(), 2), 0);
  const auto tokenizer = *Tokenizer::Create(Spec());
  // U+2581 takes three bytes and a space one: ends of segments move.
  const TextSegment segments[] = {{"\u2581a", false}, {"<turn>", true}, {"\u2581<turn>", false}};
  const auto ids = tokenizer->EncodeSegments(segments);
  ASSERT_TRUE(ids.ok()) << ids.status();
  ASSERT_GE(ids->size(), 3u);
  EXPECT_EQ(Ids(ids->begin(), ids->begin() + 3), (Ids{9, 2, 7}));
  EXPECT_EQ(std::count(ids->begin(), ids->end(), 2), 1);
}

TEST(TokenizerPieces, StreamsBytesAsCharacters) {
  const auto tokenizer = *Tokenizer::Create(Spec());
  StreamDecoder decoder(tokenizer.get(), /*skip_special=*/true);
  EXPECT_EQ(decoder.Push(9), " a");
  EXPECT_EQ(decoder.Push(4), "");
  EXPECT_EQ(decoder.Push(5), "");
  EXPECT_EQ(decoder.Push(6), "\u4e2d");
  EXPECT_EQ(decoder.Push(2), "");
  EXPECT_EQ(decoder.Push(4), "");
  EXPECT_EQ(decoder.Push(8), "\ufffda");
  EXPECT_EQ(decoder.Push(10), "a");
  EXPECT_EQ(decoder.Finish(), "");
}

TEST(TokenizerPieces, FindsAPieceBeforeAByte) {
  const auto tokenizer = *Tokenizer::Create(Spec());
  EXPECT_EQ(tokenizer->FindToken("a"), 8);
  EXPECT_EQ(tokenizer->FindToken("  "), 11);
  EXPECT_EQ(tokenizer->TokenBytes(10), "a");
  EXPECT_FALSE(tokenizer->IsSpecial(11));
}

TEST(TokenizerPieces, RefusesSpecsThatContradictThemselves) {
  TokenizerSpec spec = Spec();
  spec.scores.pop_back();
  EXPECT_EQ(Tokenizer::Create(spec).status().message(), "tokenizer: 11 scores for 12 tokens");
  spec = Spec();
  spec.byte_tokens.push_back({1, 12});
  EXPECT_EQ(Tokenizer::Create(spec).status().code(), absl::StatusCode::kInvalidArgument);
  spec = Spec();
  spec.unknown_id = -1;
  EXPECT_EQ(Tokenizer::Create(spec).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace octavo
