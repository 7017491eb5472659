#include "scheduler/text/piece_bpe.h"

#include <limits>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "scheduler/text/utf8.h"

namespace octavo {
namespace {

using Ids = std::vector<TokenId>;
using Piece = PieceBpe::Piece;

constexpr float kNever = -std::numeric_limits<float>::infinity();

// Byte b is token 1000 + b.
std::array<TokenId, 256> AllBytes() {
  std::array<TokenId, 256> tokens;
  for (int i = 0; i < 256; ++i) tokens[static_cast<size_t>(i)] = 1000 + i;
  return tokens;
}

PieceBpe Make(const std::vector<Piece>& pieces) {
  return PieceBpe(pieces, AllBytes(), PieceBpe::kNoToken);
}

Ids Encode(const PieceBpe& bpe, absl::string_view text) {
  PieceBpe::Scratch scratch;
  Ids ids;
  bpe.Encode(text, &scratch, &ids);
  return ids;
}

// The definition: again and again, merge the leftmost neighbours of highest score.
Ids Plain(const std::vector<Piece>& pieces, absl::string_view text) {
  const auto find = [&](const std::string& bytes) -> const Piece* {
    for (const Piece& piece : pieces)
      if (piece.bytes == bytes) return &piece;
    return nullptr;
  };
  std::vector<std::string> symbols;
  for (size_t i = 0; i < text.size(); i += symbols.back().size())
    symbols.emplace_back(text.substr(i, Utf8SequenceLength(text[i])));
  for (;;) {
    size_t best = symbols.size();
    float score = kNever;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const Piece* const merged = find(symbols[i] + symbols[i + 1]);
      if (merged == nullptr || merged->score <= score) continue;
      best = i;
      score = merged->score;
    }
    if (best == symbols.size()) break;
    symbols[best] += symbols[best + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
  Ids ids;
  for (const std::string& symbol : symbols) {
    if (const Piece* const piece = find(symbol)) {
      ids.push_back(piece->id);
    } else {
      for (const char byte : symbol) ids.push_back(1000 + static_cast<unsigned char>(byte));
    }
  }
  return ids;
}

TEST(PieceBpe, MergesTheHighestScoreFirstAndTheLeftmostOnTies) {
  const PieceBpe bpe = Make({{"a", 0, kNever},
                             {"b", 1, kNever},
                             {"c", 2, kNever},
                             {"bc", 3, -1},
                             {"ab", 4, -2},
                             {"aa", 5, -3},
                             {"aab", 6, -2}});
  EXPECT_EQ(Encode(bpe, "abc"), (Ids{0, 3}));
  EXPECT_EQ(Encode(bpe, "ab"), (Ids{4}));
  EXPECT_EQ(Encode(bpe, "aaa"), (Ids{5, 0}));
  EXPECT_EQ(Encode(bpe, "aab"), (Ids{6}));  // a + ab
  EXPECT_EQ(Encode(bpe, ""), Ids{});
}

TEST(PieceBpe, FallsBackToBytesForCharactersWithoutAPiece) {
  const PieceBpe bpe = Make({{"a", 0, kNever}, {"\u00e9", 1, kNever}});
  EXPECT_EQ(Encode(bpe, "a\u00e9\u4e2d"), (Ids{0, 1, 1000 + 0xE4, 1000 + 0xB8, 1000 + 0xAD}));
}

TEST(PieceBpe, UsesTheUnknownTokenForBytesWithoutOne) {
  std::array<TokenId, 256> bytes = AllBytes();
  bytes['z'] = PieceBpe::kNoToken;
  const PieceBpe bpe({{"a", 0, kNever}}, bytes, 7);
  EXPECT_EQ(Encode(bpe, "azy"), (Ids{0, 7, 1000 + 'y'}));
  const PieceBpe silent({{"a", 0, kNever}}, bytes, PieceBpe::kNoToken);
  EXPECT_EQ(Encode(silent, "azy"), (Ids{0, 1000 + 'y'}));
}

TEST(PieceBpe, MergesCharactersThatAreNoPiecesThemselves) {
  const PieceBpe bpe = Make({{"xy", 0, -1}});
  EXPECT_EQ(Encode(bpe, "xyx"), (Ids{0, 1000 + 'x'}));
}

TEST(PieceBpe, MergesNothingIntoAPieceThatIsNoResult) {
  const PieceBpe bpe = Make({{"a", 0, kNever}, {"aa", 1, kNever}});
  EXPECT_EQ(Encode(bpe, "aa"), (Ids{0, 0}));
}

// With and without pieces that forbid to cut at spaces.
TEST(PieceBpe, AgreesWithTheDefinitionOnRandomVocabularies) {
  std::mt19937 random(1);
  const std::vector<std::string> letters = {"a", "b", " ", "\u00e9"};
  for (int round = 0; round < 300; ++round) {
    std::vector<std::string> bytes(letters.begin(), letters.end() - static_cast<int>(round % 2));
    for (int i = 0; i < 25; ++i) {
      std::string piece = bytes[random() % bytes.size()] + bytes[random() % bytes.size()];
      const size_t space = piece.find(' ', 1);
      if (round % 3 != 0 && space != std::string::npos && piece[space - 1] != ' ') continue;
      if (piece.size() < 8) bytes.push_back(piece);
    }
    std::vector<Piece> pieces;
    for (const std::string& text : bytes)
      pieces.push_back(
          {text, static_cast<TokenId>(pieces.size()), -static_cast<float>(random() % 20)});
    const PieceBpe bpe = Make(pieces);
    for (int i = 0; i < 20; ++i) {
      std::string text;
      for (size_t n = random() % 30; n > 0; --n) text += letters[random() % letters.size()];
      ASSERT_EQ(Encode(bpe, text), Plain(pieces, text)) << '"' << text << "\" in round " << round;
    }
  }
}

}  // namespace
}  // namespace octavo
