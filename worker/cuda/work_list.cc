#include "worker/cuda/work_list.h"

#include <algorithm>
#include <cstddef>

#include "common/check.h"

namespace octavo::cuda {
namespace {

constexpr int32_t kUnitTiles = kSplitTokens / kTileTokens;
// What an item costs beside its positions, in units of kSplitTokens: q, the first tiles' latency
// and the merge, about 2 us, in which a block of threads reads some 32 KB, a unit of bf16 at
// head_dim 128.
constexpr int64_t kItemOverhead = 1;

// The first position that the row at `position` sees.
int32_t FirstSeen(int32_t position, int32_t window) {
  return window == 0 ? 0 : std::max(0, position - window + 1);
}

}  // namespace

AttentionWorkList::AttentionWorkList(const WorkListOptions& options) : options_(options) {
  OCTAVO_CHECK(options.num_parts > 0);
  OCTAVO_CHECK(options.fixed_split_tokens >= 0 && options.fixed_split_tokens % kSplitTokens == 0);
}

void AttentionWorkList::Build(const std::vector<SequenceRows>& sequences, int32_t window,
                              int32_t group) {
  rows_.clear();
  decode_items_.clear();
  runs_.clear();
  prefill_items_.clear();
  num_partials_ = 0;
  for (const SequenceRows& sequence : sequences) {
    if (sequence.num_rows == 1)
      AddDecode(sequence, window);
    else
      AddChunk(sequence, window, group);
  }
  if (options_.fixed_split_tokens == 0)
    SplitEvenly();
  else
    SplitAtFixedPositions();
  // Equal ones stay in order, so that neighbours share what they read of the cache.
  std::stable_sort(prefill_items_.begin(), prefill_items_.end(),
                   [](const PrefillItem& a, const PrefillItem& b) {
                     return a.end_position - a.begin_position > b.end_position - b.begin_position;
                   });
}

void AttentionWorkList::AddDecode(const SequenceRows& sequence, int32_t window) {
  DecodeRow row;
  row.item.row = sequence.first_row;
  row.item.table_begin = sequence.table_begin;
  row.item.length = sequence.context_length + 1;
  const int32_t first = FirstSeen(sequence.context_length, window);
  row.item.begin_tile = first / kTileTokens;
  row.item.end_tile = (row.item.length + kTileTokens - 1) / kTileTokens;
  row.begin_unit = first / kSplitTokens;
  row.end_unit = (row.item.length + kSplitTokens - 1) / kSplitTokens;
  rows_.push_back(row);
}

void AttentionWorkList::AddChunk(const SequenceRows& sequence, int32_t window, int32_t group) {
  PrefillItem item;
  item.first_row = sequence.first_row;
  item.num_rows = sequence.num_rows;
  item.context_length = sequence.context_length;
  item.table_begin = sequence.table_begin;
  const int32_t packed_rows = sequence.num_rows * group;
  for (int32_t first = 0; first < packed_rows; first += kPackedRows) {
    item.first_packed_row = first;
    item.begin_position = FirstSeen(sequence.context_length + first / group, window);
    const int32_t last = std::min(first + kPackedRows, packed_rows) - 1;
    item.end_position = sequence.context_length + last / group + 1;
    prefill_items_.push_back(item);
  }
}

void AttentionWorkList::AddItem(const DecodeRow& row, int32_t begin_unit, int32_t end_unit,
                                int32_t split) {
  DecodeItem item = row.item;
  item.begin_tile = std::max(item.begin_tile, begin_unit * kUnitTiles);
  item.end_tile = std::min(item.end_tile, end_unit * kUnitTiles);
  item.split = split;
  decode_items_.push_back(item);
}

void AttentionWorkList::FinishRow(int32_t num_splits) {
  if (num_splits == 1) return;
  for (auto item = decode_items_.end() - num_splits; item != decode_items_.end(); ++item) {
    item->num_splits = num_splits;
    item->first_partial = num_partials_;
  }
  num_partials_ += num_splits;
}

void AttentionWorkList::SplitEvenly() {
  int64_t total = 0;
  for (const DecodeRow& row : rows_) total += row.end_unit - row.begin_unit + kItemOverhead;
  // A cut costs one overhead more, so a part takes at least the mean of the uncut cost.
  const int64_t budget = (total + options_.num_parts - 1) / options_.num_parts + kItemOverhead;
  auto row = rows_.begin();
  int32_t split = 0;
  int32_t at = row == rows_.end() ? 0 : row->begin_unit;
  for (int32_t part = 0; part < options_.num_parts; ++part) {
    runs_.push_back(static_cast<int32_t>(decode_items_.size()));
    int64_t left = budget;
    while (row != rows_.end() && left >= row->end_unit - at + kItemOverhead) {
      left -= row->end_unit - at + kItemOverhead;
      AddItem(*row, at, row->end_unit, split);
      FinishRow(split + 1);
      ++row;
      split = 0;
      if (row != rows_.end()) at = row->begin_unit;
    }
    if (row == rows_.end() || left <= kItemOverhead) continue;
    const auto units = static_cast<int32_t>(left - kItemOverhead);
    AddItem(*row, at, at + units, split++);
    at += units;
  }
  OCTAVO_CHECK(row == rows_.end());
  runs_.push_back(static_cast<int32_t>(decode_items_.size()));
}

void AttentionWorkList::SplitAtFixedPositions() {
  const int32_t split_units = options_.fixed_split_tokens / kSplitTokens;
  int64_t total = 0;
  for (const DecodeRow& row : rows_) {
    int32_t split = 0;
    int32_t at = row.begin_unit;
    do {
      const int32_t end = std::min(row.end_unit, (at / split_units + 1) * split_units);
      AddItem(row, at, end, split++);
      total += end - at + kItemOverhead;
      at = end;
    } while (at < row.end_unit);
    FinishRow(split);
  }
  // An item belongs to the part in whose share of the total its middle lies.
  int64_t before = 0;
  runs_.push_back(0);
  for (size_t i = 0; i < decode_items_.size(); ++i) {
    const DecodeItem& item = decode_items_[i];
    const int64_t tiles = item.end_tile - item.begin_tile;
    const int64_t cost = (tiles + kUnitTiles - 1) / kUnitTiles + kItemOverhead;
    const int64_t middle = std::min(2 * before + cost, 2 * total - 1);
    const int64_t owner = middle * options_.num_parts / (2 * total);
    before += cost;
    while (static_cast<int64_t>(runs_.size()) <= owner) runs_.push_back(static_cast<int32_t>(i));
  }
  runs_.resize(static_cast<size_t>(options_.num_parts) + 1,
               static_cast<int32_t>(decode_items_.size()));
}

int64_t AttentionWorkList::MaxDecodeItems(int64_t rows, int64_t tokens) const {
  // A row's first and last fixed split may be in part before its window and beyond its end.
  if (options_.fixed_split_tokens > 0) return 2 * rows + tokens / options_.fixed_split_tokens;
  return rows + options_.num_parts;
}

int64_t AttentionWorkList::MaxPartials(int64_t rows, int64_t tokens) const {
  if (options_.fixed_split_tokens > 0) return MaxDecodeItems(rows, tokens);
  return 2 * int64_t{options_.num_parts};
}

}  // namespace octavo::cuda
