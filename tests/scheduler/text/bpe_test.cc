#include "scheduler/text/bpe.h"

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "scheduler/text/bpe_alphabet.h"

namespace octavo {
namespace {

constexpr TokenId kNone = Bpe::kNoToken;

std::array<TokenId, 256> AllBytes() {
  std::array<TokenId, 256> tokens;
  for (int i = 0; i < 256; ++i) tokens[i] = i;
  return tokens;
}

// The definition: again and again, merge the leftmost pair of lowest rank.
std::vector<TokenId> Plain(const std::array<TokenId, 256>& bytes,
                           const std::vector<BpeMerge>& merges, absl::string_view piece) {
  std::map<std::pair<TokenId, TokenId>, size_t> ranks;
  for (size_t i = 0; i < merges.size(); ++i) ranks[{merges[i].left, merges[i].right}] = i;
  std::vector<TokenId> ids;
  for (const char byte : piece) {
    const TokenId id = bytes[static_cast<unsigned char>(byte)];
    if (id != kNone) ids.push_back(id);
  }
  for (;;) {
    size_t best_rank = merges.size();
    size_t best = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto found = ranks.find({ids[i], ids[i + 1]});
      if (found != ranks.end() && found->second < best_rank) {
        best_rank = found->second;
        best = i;
      }
    }
    if (best_rank == merges.size()) return ids;
    ids[best] = merges[best_rank].merged;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

std::vector<TokenId> Encode(const Bpe& bpe, absl::string_view piece) {
  Bpe::Scratch scratch;
  std::vector<TokenId> ids;
  bpe.Encode(piece, &scratch, &ids);
  return ids;
}

TEST(Bpe, MergesTheLowestRankFirstAndTheLeftmostOnTies) {
  const Bpe bpe(AllBytes(), {{'b', 'c', 256}, {'a', 'b', 257}, {'a', 'a', 258}});
  EXPECT_EQ(Encode(bpe, "abc"), (std::vector<TokenId>{'a', 256}));
  EXPECT_EQ(Encode(bpe, "aaa"), (std::vector<TokenId>{258, 'a'}));
  EXPECT_EQ(Encode(bpe, "aaab"), (std::vector<TokenId>{258, 257}));
  EXPECT_EQ(Encode(bpe, "z"), (std::vector<TokenId>{'z'}));
  EXPECT_EQ(Encode(bpe, ""), std::vector<TokenId>{});
}

TEST(Bpe, DropsBytesWithoutATokenBeforeMerging) {
  std::array<TokenId, 256> bytes = AllBytes();
  bytes[4] = kNone;
  const Bpe bpe(bytes, {{'!', '!', 256}});
  EXPECT_EQ(Encode(bpe, "!\x04!"), (std::vector<TokenId>{256}));
  EXPECT_EQ(Encode(bpe, "\x04\x04"), std::vector<TokenId>{});
}

TEST(Bpe, TakesTheLaterOfTwoMergesOfOnePair) {
  const Bpe bpe(AllBytes(), {{'a', 'b', 256}, {'b', 'c', 257}, {'a', 'b', 258}});
  EXPECT_EQ(Encode(bpe, "abc"), (std::vector<TokenId>{'a', 257}));
  EXPECT_EQ(Encode(bpe, "ab"), (std::vector<TokenId>{258}));
}

TEST(Bpe, AppendsToWhatIsThere) {
  const Bpe bpe(AllBytes(), {{'a', 'b', 256}});
  Bpe::Scratch scratch;
  std::vector<TokenId> ids = {7};
  bpe.Encode("ab", &scratch, &ids);
  bpe.Encode("c", &scratch, &ids);
  EXPECT_EQ(ids, (std::vector<TokenId>{7, 256, 'c'}));
}

TEST(Bpe, EqualsTheQuadraticDefinitionOnRandomVocabularies) {
  std::mt19937 random(11);
  for (int vocabulary = 0; vocabulary < 200; ++vocabulary) {
    const int letters = 2 + static_cast<int>(random() % 4);
    std::array<TokenId, 256> bytes;
    bytes.fill(kNone);
    std::vector<TokenId> made;
    for (int i = 0; i < letters; ++i) {
      bytes['a' + i] = i;
      made.push_back(i);
    }
    // Several pairs may give the same token, as "ab"+"c" and "a"+"bc" do, and pairs may repeat.
    std::vector<BpeMerge> merges;
    for (size_t n = random() % 40; n > 0; --n) {
      const TokenId left = made[random() % made.size()];
      const TokenId right = made[random() % made.size()];
      const bool again = random() % 8 == 0;
      const TokenId merged =
          again ? made[random() % made.size()] : static_cast<TokenId>(made.size());
      if (!again) made.push_back(merged);
      merges.push_back({left, right, merged});
    }
    const Bpe bpe(bytes, merges);
    for (int round = 0; round < 50; ++round) {
      std::string piece;
      for (size_t n = random() % 60; n > 0; --n) {
        piece.push_back(static_cast<char>('a' + random() % (letters + 1)));  // one letter vanishes
      }
      ASSERT_EQ(Encode(bpe, piece), Plain(bytes, merges, piece)) << vocabulary << " " << piece;
    }
  }
}

TEST(Bpe, MergesAMegabyteOfOneLetter) {
  std::vector<BpeMerge> merges = {{'a', 'a', 256}};
  for (TokenId i = 256; i < 264; ++i) merges.push_back({i, i, i + 1});
  const Bpe bpe(AllBytes(), merges);
  const std::vector<TokenId> ids = Encode(bpe, std::string((1 << 20) + 3, 'a'));
  ASSERT_EQ(ids.size(), (size_t{1} << 20) / 512 + 2);
  EXPECT_TRUE(std::all_of(ids.begin(), ids.end() - 2, [](TokenId id) { return id == 264; }));
  EXPECT_EQ(ids[ids.size() - 2], 256);
  EXPECT_EQ(ids.back(), 'a');
}

TEST(BpeAlphabet, MapsEachByteThereAndBack) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
  EXPECT_EQ(BytesOfAlphabet(AlphabetOfBytes(all)), all);
  EXPECT_EQ(AlphabetOfBytes(" a\n\x7F\xAD\xFF"), "\u0120a\u010a\u0121\u0143\u00ff");
  EXPECT_EQ(BytesOfAlphabet("\u0144"), std::nullopt);
  EXPECT_EQ(BytesOfAlphabet(" "), std::nullopt);
  EXPECT_EQ(BytesOfAlphabet("\u00ad"), std::nullopt);
  EXPECT_EQ(BytesOfAlphabet("\xC3"), std::nullopt);
}

}  // namespace
}  // namespace octavo
