#include "worker/cuda/work_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace octavo::cuda {
namespace {

SequenceRows Decode(int32_t row, int32_t length) { return {row, 1, length - 1, 10 * row, 1000}; }

std::vector<SequenceRows> Decodes(const std::vector<int32_t>& lengths) {
  std::vector<SequenceRows> sequences;
  for (const int32_t length : lengths)
    sequences.push_back(Decode(static_cast<int32_t>(sequences.size()), length));
  return sequences;
}

// In units of kSplitTokens, one of them what every item costs beside its tiles.
int64_t Cost(const DecodeItem& item) { return (item.end_tile - item.begin_tile + 3) / 4 + 1; }

std::vector<int64_t> PartCosts(const AttentionWorkList& list) {
  std::vector<int64_t> costs;
  for (size_t part = 0; part + 1 < list.runs().size(); ++part) {
    int64_t cost = 0;
    for (int32_t i = list.runs()[part]; i < list.runs()[part + 1]; ++i)
      cost += Cost(list.decode_items()[static_cast<size_t>(i)]);
    costs.push_back(cost);
  }
  return costs;
}

// Every row's tiles are in its items once, in order; splits, partials and runs fit together.
void ExpectWhole(const AttentionWorkList& list, const std::vector<SequenceRows>& sequences,
                 int32_t window, int32_t num_parts) {
  ASSERT_EQ(list.runs().size(), static_cast<size_t>(num_parts) + 1);
  EXPECT_EQ(list.runs().front(), 0);
  EXPECT_EQ(list.runs().back(), static_cast<int32_t>(list.decode_items().size()));
  EXPECT_TRUE(std::is_sorted(list.runs().begin(), list.runs().end()));
  std::map<int32_t, std::vector<DecodeItem>> rows;
  for (const DecodeItem& item : list.decode_items()) rows[item.row].push_back(item);
  int32_t partials = 0;
  size_t decodes = 0;
  for (const SequenceRows& sequence : sequences) {
    if (sequence.num_rows != 1) continue;
    ++decodes;
    const std::vector<DecodeItem>& items = rows[sequence.first_row];
    ASSERT_FALSE(items.empty()) << "row " << sequence.first_row;
    const int32_t length = sequence.context_length + 1;
    const int32_t first = window > 0 ? std::max(0, length - window) : 0;
    EXPECT_EQ(items.front().begin_tile, first / kTileTokens);
    EXPECT_EQ(items.back().end_tile, (length + kTileTokens - 1) / kTileTokens);
    for (size_t i = 0; i < items.size(); ++i) {
      EXPECT_EQ(items[i].length, length);
      EXPECT_EQ(items[i].table_begin, sequence.table_begin);
      EXPECT_EQ(items[i].split, static_cast<int32_t>(i));
      EXPECT_EQ(items[i].num_splits, static_cast<int32_t>(items.size()));
      EXPECT_LT(items[i].begin_tile, items[i].end_tile);
      if (i > 0) {
        EXPECT_EQ(items[i].begin_tile, items[i - 1].end_tile);
        EXPECT_EQ(items[i].begin_tile % 4, 0) << "splits are whole units";
        EXPECT_EQ(items[i].first_partial, items[0].first_partial);
      }
    }
    if (items.size() == 1) continue;
    EXPECT_EQ(items[0].first_partial, partials);
    partials += static_cast<int32_t>(items.size());
  }
  EXPECT_EQ(rows.size(), decodes);
  EXPECT_EQ(list.num_partials(), partials);
}

void ExpectWithinBounds(const AttentionWorkList& list, const std::vector<SequenceRows>& sequences) {
  int64_t rows = 0, positions = 0;
  for (const SequenceRows& sequence : sequences) {
    if (sequence.num_rows != 1) continue;
    ++rows;
    positions = std::max<int64_t>(positions, sequence.context_length + 1);
  }
  EXPECT_LE(static_cast<int64_t>(list.decode_items().size()), list.MaxDecodeItems(rows, positions));
  EXPECT_LE(list.num_partials(), list.MaxPartials(rows, positions));
}

TEST(AttentionWorkList, OneRowGoesToAllParts) {
  AttentionWorkList list({33, 0});
  const auto sequences = Decodes({131072});
  list.Build(sequences, 0, 4);
  ExpectWhole(list, sequences, 0, 33);
  EXPECT_EQ(list.decode_items().size(), 33u);
  const std::vector<int64_t> costs = PartCosts(list);
  EXPECT_LE(*std::max_element(costs.begin(), costs.end()), 131072 / kSplitTokens / 33 + 3);
}

TEST(AttentionWorkList, ShortRowsAreNotSplit) {
  AttentionWorkList list({33, 0});
  const auto sequences = Decodes({1, 15, 16, 17, 63, 64});
  list.Build(sequences, 0, 4);
  ExpectWhole(list, sequences, 0, 33);
  EXPECT_EQ(list.decode_items().size(), sequences.size());
  EXPECT_EQ(list.num_partials(), 0);
}

TEST(AttentionWorkList, NoDecodesGivesEmptyRuns) {
  AttentionWorkList list({5, 0});
  list.Build({}, 0, 4);
  EXPECT_EQ(list.runs(), std::vector<int32_t>(6, 0));
  EXPECT_TRUE(list.decode_items().empty());
  AttentionWorkList fixed({5, 256});
  fixed.Build({}, 0, 4);
  EXPECT_EQ(fixed.runs(), std::vector<int32_t>(6, 0));
}

// What makes skewed batches as fast as uniform ones: no part has more than the mean, an overhead
// for the cut and a rounding.
TEST(AttentionWorkList, PartsCostTheSameWhateverTheMix) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 300; ++trial) {
    const int32_t parts = std::uniform_int_distribution<int32_t>(1, 90)(random);
    const int rows = std::uniform_int_distribution<int>(1, 60)(random);
    const int32_t window = trial % 3 == 0 ? 100 + 50 * (trial % 7) : 0;
    std::vector<int32_t> lengths;
    for (int i = 0; i < rows; ++i)
      lengths.push_back(
          std::uniform_int_distribution<int32_t>(1, i % 9 == 0 ? 40000 : 700)(random));
    const auto sequences = Decodes(lengths);
    AttentionWorkList list({parts, 0});
    list.Build(sequences, window, 4);
    ExpectWhole(list, sequences, window, parts);
    ExpectWithinBounds(list, sequences);
    const std::vector<int64_t> costs = PartCosts(list);
    int64_t uncut = 0;
    for (const int32_t length : lengths) {
      const int32_t first = window > 0 ? std::max(0, length - window) : 0;
      uncut += (length + kSplitTokens - 1) / kSplitTokens - first / kSplitTokens + 1;
    }
    EXPECT_LE(*std::max_element(costs.begin(), costs.end()), (uncut + parts - 1) / parts + 1)
        << "parts " << parts << " rows " << rows;
  }
}

TEST(AttentionWorkList, FixedSplitsDoNotDependOnTheBatch) {
  AttentionWorkList list({7, 256});
  const auto alone = Decodes({3000});
  list.Build(alone, 0, 4);
  ExpectWhole(list, alone, 0, 7);
  const std::vector<DecodeItem> before = list.decode_items();
  EXPECT_EQ(before.size(), 12u);
  auto batch = Decodes({3000, 17, 9000, 256, 257});
  list.Build(batch, 0, 4);
  ExpectWhole(list, batch, 0, 7);
  ExpectWithinBounds(list, batch);
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(list.decode_items()[i].begin_tile, before[i].begin_tile);
    EXPECT_EQ(list.decode_items()[i].end_tile, before[i].end_tile);
  }
  const std::vector<int64_t> costs = PartCosts(list);
  // The mean of 35.7 and one split of 5.
  EXPECT_LE(*std::max_element(costs.begin(), costs.end()), 41);
}

// Their number is bounded, by splits that grow with the row and with nothing else.
TEST(AttentionWorkList, LongRowsHaveLongerFixedSplits) {
  AttentionWorkList list({5, 256});
  for (const int32_t length : {8192, 8193, 20000, 131072}) {
    const auto sequences = Decodes({length, 700});
    list.Build(sequences, 0, 4);
    ExpectWhole(list, sequences, 0, 5);
    ExpectWithinBounds(list, sequences);
    const auto splits = static_cast<int32_t>(list.decode_items().size()) - 3;
    EXPECT_LE(splits, kMostFixedSplits);
    EXPECT_GE(splits, kMostFixedSplits / 2);
  }
}

TEST(AttentionWorkList, FixedSplitsStandStillWhileAWindowMoves) {
  AttentionWorkList list({3, 256});
  for (const int32_t length : {1000, 1001, 1300}) {
    const auto sequences = Decodes({length});
    list.Build(sequences, 600, 4);
    ExpectWhole(list, sequences, 600, 3);
    for (const DecodeItem& item : list.decode_items()) {
      EXPECT_TRUE(item.split == 0 || item.begin_tile % 16 == 0);
    }
  }
}

TEST(AttentionWorkList, ChunksBecomeTilesOfPackedRowsHeaviestFirst) {
  AttentionWorkList list({4, 0});
  // 30 tokens x 3 heads = 90 packed rows: 64 and 26.
  std::vector<SequenceRows> sequences = {
      Decode(0, 50), {1, 30, 100, 7, 20}, {31, 2, 900, 99, 60}, {33, 0, 5, 0, 0}};
  list.Build(sequences, 0, 3);
  EXPECT_EQ(list.decode_items().size(), 1u);
  ASSERT_EQ(list.prefill_items().size(), 3u);
  const PrefillItem& longest = list.prefill_items()[0];
  EXPECT_EQ(longest.first_row, 31);
  EXPECT_EQ(longest.context_length, 900);
  EXPECT_EQ(longest.end_position, 902);
  const PrefillItem& second = list.prefill_items()[1];
  EXPECT_EQ(second.first_row, 1);
  EXPECT_EQ(second.first_packed_row, 64);
  EXPECT_EQ(second.begin_position, 0);
  EXPECT_EQ(second.end_position, 130);
  const PrefillItem& last = list.prefill_items()[2];
  EXPECT_EQ(last.first_packed_row, 0);
  EXPECT_EQ(last.end_position, 122) << "packed row 63 is token 21";
  EXPECT_EQ(last.num_rows, 30);
  EXPECT_EQ(last.table_begin, 7);
}

TEST(AttentionWorkList, ChunksBeginWhereTheWindowOfTheirFirstRowDoes) {
  AttentionWorkList list({4, 0});
  list.Build({{0, 40, 200, 0, 20}}, 50, 4);
  ASSERT_EQ(list.prefill_items().size(), 3u);
  std::map<int32_t, int32_t> begins;
  for (const PrefillItem& item : list.prefill_items())
    begins[item.first_packed_row] = item.begin_position;
  EXPECT_EQ(begins, (std::map<int32_t, int32_t>{{0, 151}, {64, 167}, {128, 183}}));
}

}  // namespace
}  // namespace octavo::cuda
