#include "worker/cuda/shared_prefix.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <utility>

#include "worker/cuda/work_list.h"

namespace octavo::cuda {
namespace {

// Tables of sequences that share what they say they share.
class Batch {
 public:
  explicit Batch(int32_t block_size = 16) : block_size_(block_size) {}

  // A decode at `position`; its first `shared` blocks are those of sequence `like`.
  void Add(int32_t position, int32_t like = -1, int32_t shared = 0) {
    SequenceRows rows = {static_cast<int32_t>(sequences_.size()), 1, position, 0, 0};
    rows.table_begin = static_cast<int32_t>(table_.size());
    rows.table_length = position / block_size_ + 1;
    for (int32_t i = 0; i < rows.table_length; ++i) {
      const BlockId shared_block =
          i < shared
              ? table_[static_cast<size_t>(sequences_[static_cast<size_t>(like)].table_begin + i)]
              : next_++;
      table_.push_back(shared_block);
    }
    sequences_.push_back(rows);
  }
  HostTables tables() const { return {{table_.data()}, block_size_}; }
  const std::vector<SequenceRows>& sequences() const { return sequences_; }
  std::vector<PrefixRow> rows() const {
    std::vector<PrefixRow> rows;
    for (const SequenceRows& sequence : sequences_)
      rows.push_back({sequence.first_row, sequence.table_begin, sequence.context_length / 16});
    return rows;
  }

 private:
  const int32_t block_size_;
  BlockId next_ = 1;
  std::vector<BlockId> table_;
  std::vector<SequenceRows> sequences_;
};

SharingCosts Costs(int32_t rows_per_item, int32_t least_gain) {
  return {.rows_per_item = rows_per_item,
          .heads_per_row = 4,
          .item_overhead = 4,
          .merge_overhead = 4,
          .least_gain = least_gain};
}

std::vector<int32_t> Members(const PrefixFinder& finder, size_t group) {
  const PrefixGroup& g = finder.groups()[group];
  const auto begin = finder.members().begin() + g.first_member;
  return {begin, begin + g.num_members};
}

TEST(PrefixFinder, FindsRowsThatBeginAlike) {
  Batch batch;
  batch.Add(1000);
  batch.Add(1200);
  batch.Add(900, 0, 30);
  batch.Add(2000, 1, 60);
  batch.Add(1100, 0, 40);
  PrefixFinder finder;
  finder.Find(batch.rows(), batch.tables(), Costs(8, 2));
  ASSERT_EQ(finder.groups().size(), 2u);
  // Three share 30 blocks: two times 30 saved, where two would save 40 once.
  EXPECT_EQ(Members(finder, 0), (std::vector<int32_t>{0, 4, 2}));
  EXPECT_EQ(finder.groups()[0].num_tiles, 30);
  EXPECT_EQ(Members(finder, 1), (std::vector<int32_t>{1, 3}));
  EXPECT_EQ(finder.groups()[1].num_tiles, 60);
}

// Two rows add 8 tiles for the shared item and 8 for two merges: at a gain of 2 they need 32.
TEST(PrefixFinder, SharesWhereItPays) {
  for (const auto& [blocks, groups] : {std::pair{32, 0u}, {33, 1u}}) {
    Batch batch;
    batch.Add(1000);
    batch.Add(1000, 0, blocks);
    PrefixFinder finder;
    finder.Find(batch.rows(), batch.tables(), Costs(8, 2));
    EXPECT_EQ(finder.groups().size(), groups) << blocks;
  }
  Batch batch;
  batch.Add(1000);
  for (int i = 0; i < 7; ++i) batch.Add(1000, 0, 12);
  PrefixFinder finder;
  finder.Find(batch.rows(), batch.tables(), Costs(8, 2));
  EXPECT_EQ(finder.groups().size(), 1u) << "7 x 12 saved, 8 + 32 added";
}

TEST(PrefixFinder, FillsItemsAndLeavesNoneToASingleRow) {
  Batch batch;
  batch.Add(1000);
  for (int i = 0; i < 8; ++i) batch.Add(1000, 0, 50);
  PrefixFinder finder;
  finder.Find(batch.rows(), batch.tables(), Costs(4, 2));
  ASSERT_EQ(finder.groups().size(), 2u);
  EXPECT_EQ(finder.groups()[0].num_members, 4);
  EXPECT_EQ(finder.groups()[1].num_members, 4);
  finder.Find(batch.rows(), batch.tables(), Costs(7, 2));
  ASSERT_EQ(finder.groups().size(), 2u);
  EXPECT_EQ(finder.groups()[1].num_members, 2);
  finder.Find(batch.rows(), batch.tables(), Costs(1, 0));
  EXPECT_TRUE(finder.groups().empty());
}

TEST(PrefixFinder, SharesWholeTilesBeforeARowsOwnToken) {
  for (const int32_t block_size : {8, 16, 64}) {
    Batch batch(block_size);
    const int32_t blocks = 192 / block_size;
    batch.Add(192);
    batch.Add(300, 0, blocks);
    PrefixFinder finder;
    finder.Find(batch.rows(), batch.tables(), Costs(8, 0));
    ASSERT_EQ(finder.groups().size(), 1u);
    EXPECT_EQ(finder.groups()[0].num_tiles, 12);
  }
  Batch batch(8);  // three blocks are a tile and a half
  batch.Add(40);
  batch.Add(40, 0, 3);
  PrefixFinder finder;
  finder.Find(batch.rows(), batch.tables(), Costs(8, 0));
  ASSERT_EQ(finder.groups().size(), 1u);
  EXPECT_EQ(finder.groups()[0].num_tiles, 1);
}

TEST(PrefixFinder, SharesWhatAllGroupsOfLayersShare) {
  Batch batch;
  batch.Add(500);
  batch.Add(500, 0, 20);
  std::vector<BlockId> other(batch.tables().groups[0], batch.tables().groups[0] + 64);
  other[static_cast<size_t>(batch.sequences()[1].table_begin) + 15] = 777;
  HostTables tables = batch.tables();
  tables.groups.push_back(other.data());
  PrefixFinder finder;
  finder.Find(batch.rows(), tables, Costs(8, 0));
  ASSERT_EQ(finder.groups().size(), 1u);
  EXPECT_EQ(finder.groups()[0].num_tiles, 15);
}

// Every row's tiles are in its items once, those it shares included, and splits count on.
void ExpectWhole(const AttentionWorkList& list, const std::vector<SequenceRows>& sequences,
                 int32_t window) {
  struct Piece {
    int32_t split, begin_tile, end_tile, num_splits, first_partial;
  };
  std::map<int32_t, std::vector<Piece>> rows;
  for (const DecodeItem& item : list.decode_items()) {
    ASSERT_LT(item.begin_tile, item.end_tile);
    if (item.num_shared == 0)
      rows[item.row].push_back(
          {item.split, item.begin_tile, item.end_tile, item.num_splits, item.first_partial});
    for (int32_t i = 0; i < item.num_shared; ++i) {
      const SharedRow& row = list.shared_rows()[static_cast<size_t>(item.row + i)];
      rows[row.row].push_back(
          {item.split, item.begin_tile, item.end_tile, row.num_splits, row.first_partial});
    }
  }
  ASSERT_EQ(rows.size(), sequences.size());
  int32_t partials = 0;
  std::map<int32_t, int32_t> places;
  for (auto& [row, pieces] : rows) {
    std::sort(pieces.begin(), pieces.end(),
              [](const Piece& a, const Piece& b) { return a.split < b.split; });
    const int32_t length = sequences[static_cast<size_t>(row)].context_length + 1;
    int32_t tile = window > 0 ? std::max(0, length - window) / kTileTokens : 0;
    for (size_t i = 0; i < pieces.size(); ++i) {
      EXPECT_EQ(pieces[i].split, static_cast<int32_t>(i));
      EXPECT_EQ(pieces[i].begin_tile, tile);
      EXPECT_EQ(pieces[i].num_splits, static_cast<int32_t>(pieces.size()));
      EXPECT_EQ(pieces[i].first_partial, pieces[0].first_partial);
      tile = pieces[i].end_tile;
    }
    EXPECT_EQ(tile, (length + kTileTokens - 1) / kTileTokens);
    if (pieces.size() == 1) continue;
    places[pieces[0].first_partial] = static_cast<int32_t>(pieces.size());
    partials += static_cast<int32_t>(pieces.size());
  }
  EXPECT_EQ(list.num_partials(), partials);
  int32_t next = 0;
  for (const auto& [place, count] : places) {
    EXPECT_EQ(place, next) << "partial results of rows follow each other";
    next += count;
  }
}

TEST(AttentionWorkList, SharedPartsAndTheirRowsMakeWholeRows) {
  std::mt19937 random(5);
  size_t sharing = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const auto pick = [&](int32_t least, int32_t most) {
      return std::uniform_int_distribution<int32_t>(least, most)(random);
    };
    Batch batch(trial % 2 == 0 ? 16 : 64);
    const int32_t rows = pick(1, 40);
    for (int32_t i = 0; i < rows; ++i) {
      const int32_t position = pick(0, i % 5 == 0 ? 9000 : 900);
      const int32_t like = pick(-1, i - 1);
      const int32_t most =
          like < 0
              ? 0
              : std::min(position, batch.sequences()[static_cast<size_t>(like)].context_length) /
                    (trial % 2 == 0 ? 16 : 64);
      batch.Add(position, like, pick(most / 2, most));
    }
    WorkListOptions options = {pick(1, 60), 0};
    options.shared_rows = pick(1, 3) == 1 ? 1 : pick(2, 32);
    options.least_sharing_gain = pick(0, 2);
    const int32_t window = trial % 4 == 0 ? 700 : 0;
    AttentionWorkList list(options);
    list.Build(batch.sequences(), window, pick(1, 16), batch.tables());
    ExpectWhole(list, batch.sequences(), window);
    ASSERT_EQ(list.runs().size(), static_cast<size_t>(options.num_parts) + 1);
    EXPECT_TRUE(std::is_sorted(list.runs().begin(), list.runs().end()));
    EXPECT_EQ(list.runs().back(), static_cast<int32_t>(list.decode_items().size()));
    EXPECT_LE(static_cast<int64_t>(list.decode_items().size()), list.MaxDecodeItems(rows, 9001));
    EXPECT_LE(list.num_partials(), list.MaxPartials(rows, 9001));
    EXPECT_LE(list.shared_rows().size(), static_cast<size_t>(rows));
    for (const DecodeItem& item : list.decode_items())
      EXPECT_LE(item.num_shared, options.shared_rows);
    if (!list.shared_rows().empty()) ++sharing;
  }
  EXPECT_GT(sharing, 100u);
}

// What a shared prefix is for: 64 rows of 8,448 positions that share 8,192, eight rows an item.
TEST(AttentionWorkList, SharedPrefixesCostAFractionOfTheirRows) {
  Batch batch;
  batch.Add(8447);
  for (int i = 1; i < 64; ++i) batch.Add(8447, 0, 512);
  WorkListOptions options = {49, 0};
  options.shared_rows = 8;
  AttentionWorkList list(options);
  list.Build(batch.sequences(), 0, 4, batch.tables());
  ExpectWhole(list, batch.sequences(), 0);
  EXPECT_EQ(list.shared_rows().size(), 64u);
  int64_t tiles = 0;
  for (const DecodeItem& item : list.decode_items()) tiles += item.end_tile - item.begin_tile;
  EXPECT_EQ(tiles, 8 * 512 + 64 * 16) << "instead of 64 x 528";
}

}  // namespace
}  // namespace octavo::cuda
