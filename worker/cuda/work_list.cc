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
// What a row costs that leaves its tail as a partial result and merges it: about an item's start.
constexpr int64_t kMergeOverhead = 1;
// Query heads x rows whose partial results of one item, written once and read once, are a unit's
// bytes: 32 x head_dim x 4 bytes x 2 = 64 tokens of K and V in bf16.
constexpr int32_t kColumnsPerUnit = 32;

// The first position that the row at `position` sees.
int32_t FirstSeen(int32_t position, int32_t window) {
  return window == 0 ? 0 : std::max(0, position - window + 1);
}

}  // namespace

AttentionWorkList::AttentionWorkList(const WorkListOptions& options) : options_(options) {
  OCTAVO_CHECK(options.num_parts > 0);
  OCTAVO_CHECK(options.fixed_split_tokens >= 0 && options.fixed_split_tokens % kSplitTokens == 0);
  OCTAVO_CHECK(options.shared_rows == 1 ||
               (options.shared_rows > 1 && options.fixed_split_tokens == 0));
}

void AttentionWorkList::Build(const std::vector<SequenceRows>& sequences, int32_t window,
                              int32_t group, const HostTables& tables) {
  jobs_.clear();
  sharing_.clear();
  decode_items_.clear();
  shared_rows_.clear();
  runs_.clear();
  prefill_items_.clear();
  num_partials_ = 0;
  for (const SequenceRows& sequence : sequences) {
    if (sequence.num_rows == 1)
      AddDecode(sequence, window);
    else
      AddChunk(sequence, window, group);
  }
  if (options_.fixed_split_tokens == 0) {
    Share(group, tables);
    SplitEvenly();
  } else {
    SplitAtFixedPositions();
  }
  // Equal ones stay in order, so that neighbours share what they read of the cache.
  std::stable_sort(prefill_items_.begin(), prefill_items_.end(),
                   [](const PrefillItem& a, const PrefillItem& b) {
                     return a.end_position - a.begin_position > b.end_position - b.begin_position;
                   });
}

void AttentionWorkList::AddDecode(const SequenceRows& sequence, int32_t window) {
  Job row;
  row.item.row = sequence.first_row;
  row.item.table_begin = sequence.table_begin;
  row.item.length = sequence.context_length + 1;
  const int32_t first = FirstSeen(sequence.context_length, window);
  row.item.begin_tile = first / kTileTokens;
  row.item.end_tile = (row.item.length + kTileTokens - 1) / kTileTokens;
  row.begin_unit = first / kSplitTokens;
  row.end_unit = (row.item.length + kSplitTokens - 1) / kSplitTokens;
  row.overhead = kItemOverhead;
  // The tile of the row's own token is never shared.
  if (first == 0)
    sharing_.push_back({static_cast<int32_t>(jobs_.size()), sequence.table_begin,
                        sequence.context_length / kTileTokens});
  jobs_.push_back(row);
}

void AttentionWorkList::Share(int32_t group, const HostTables& tables) {
  SharingCosts costs;
  costs.rows_per_item = options_.shared_rows;
  costs.heads_per_row = group;
  costs.item_overhead = kItemOverhead * kUnitTiles;
  costs.merge_overhead = kMergeOverhead * kUnitTiles;
  costs.columns_per_unit = kColumnsPerUnit;
  costs.unit = kUnitTiles;
  costs.least_gain = options_.least_sharing_gain;
  finder_.Find(sharing_, tables, costs);
  if (finder_.groups().empty()) return;
  unordered_.swap(jobs_);
  jobs_.clear();
  for (const PrefixGroup& shared : finder_.groups()) {
    const int32_t* const members = finder_.members().data() + shared.first_member;
    Job job;
    job.item = unordered_[static_cast<size_t>(members[0])].item;
    job.item.row = static_cast<int32_t>(shared_rows_.size());
    job.item.length = shared.num_tiles * kTileTokens;
    job.item.end_tile = shared.num_tiles;
    job.item.num_shared = shared.num_members;
    job.end_unit = (shared.num_tiles + kUnitTiles - 1) / kUnitTiles;
    job.overhead = costs.SharedOverhead(shared.num_members) / kUnitTiles;
    jobs_.push_back(job);
    for (int32_t i = 0; i < shared.num_members; ++i) {
      Job& row = unordered_[static_cast<size_t>(members[i])];
      row.item.begin_tile = shared.num_tiles;
      row.begin_unit = shared.num_tiles / kUnitTiles;
      row.shared_row = static_cast<int32_t>(shared_rows_.size());
      shared_rows_.push_back({row.item.row});
      jobs_.push_back(row);
    }
  }
  for (const Job& row : unordered_)
    if (row.shared_row < 0) jobs_.push_back(row);
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

void AttentionWorkList::AddItem(const Job& job, int32_t begin_unit, int32_t end_unit,
                                int32_t split) {
  DecodeItem item = job.item;
  item.begin_tile = std::max(item.begin_tile, begin_unit * kUnitTiles);
  item.end_tile = std::min(item.end_tile, end_unit * kUnitTiles);
  item.split = job.first_split + split;
  decode_items_.push_back(item);
}

void AttentionWorkList::Finish(std::vector<Job>::iterator job, int32_t num_splits) {
  if (job->is_shared()) {
    for (int32_t i = 1; i <= job->item.num_shared; ++i) (job + i)->first_split = num_splits;
    return;
  }
  const int32_t row_splits = job->first_split + num_splits;
  if (row_splits == 1) return;
  for (auto item = decode_items_.end() - num_splits; item != decode_items_.end(); ++item) {
    item->num_splits = row_splits;
    item->first_partial = num_partials_;
  }
  if (job->shared_row >= 0) {
    SharedRow& row = shared_rows_[static_cast<size_t>(job->shared_row)];
    row.num_splits = row_splits;
    row.first_partial = num_partials_;
  }
  num_partials_ += row_splits;
}

void AttentionWorkList::SplitEvenly() {
  int64_t total = 0, overhead = kItemOverhead;
  for (const Job& job : jobs_) {
    total += job.units() + job.overhead;
    overhead = std::max(overhead, job.overhead);
  }
  // A cut costs one overhead more, so a part takes at least the mean of the uncut cost.
  const int64_t budget = (total + options_.num_parts - 1) / options_.num_parts + overhead;
  auto job = jobs_.begin();
  int32_t split = 0;
  int32_t at = job == jobs_.end() ? 0 : job->begin_unit;
  for (int32_t part = 0; part < options_.num_parts; ++part) {
    runs_.push_back(static_cast<int32_t>(decode_items_.size()));
    int64_t left = budget;
    while (job != jobs_.end() && left >= job->end_unit - at + job->overhead) {
      left -= job->end_unit - at + job->overhead;
      AddItem(*job, at, job->end_unit, split);
      Finish(job, split + 1);
      ++job;
      split = 0;
      if (job != jobs_.end()) at = job->begin_unit;
    }
    if (job == jobs_.end() || left <= job->overhead) continue;
    const auto units = static_cast<int32_t>(left - job->overhead);
    AddItem(*job, at, at + units, split++);
    at += units;
  }
  OCTAVO_CHECK(job == jobs_.end());
  runs_.push_back(static_cast<int32_t>(decode_items_.size()));
}

void AttentionWorkList::SplitAtFixedPositions() {
  const int32_t least_units = options_.fixed_split_tokens / kSplitTokens;
  int64_t total = 0;
  for (auto job = jobs_.begin(); job != jobs_.end(); ++job) {
    const auto least_splits = static_cast<int32_t>((job->units() + least_units - 1) / least_units);
    const int32_t split_units =
        least_units * ((least_splits + kMostFixedSplits - 1) / kMostFixedSplits);
    int32_t split = 0;
    int32_t at = job->begin_unit;
    do {
      const int32_t end = std::min(job->end_unit, (at / split_units + 1) * split_units);
      AddItem(*job, at, end, split++);
      total += end - at + kItemOverhead;
      at = end;
    } while (at < job->end_unit);
    Finish(job, split);
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

int64_t AttentionWorkList::MaxDecodeItems(int64_t rows, int64_t positions) const {
  if (options_.fixed_split_tokens > 0) {
    // A row's first and last split may be in part before its window and beyond its end.
    const int64_t splits = positions / options_.fixed_split_tokens + 2;
    return rows * std::min<int64_t>(splits, kMostFixedSplits + 1);
  }
  const int64_t shared_jobs = options_.shared_rows > 1 ? rows / 2 : 0;
  return rows + shared_jobs + options_.num_parts;
}

int64_t AttentionWorkList::MaxPartials(int64_t rows, int64_t positions) const {
  if (options_.fixed_split_tokens > 0) return MaxDecodeItems(rows, positions);
  const int64_t cuts = options_.num_parts;
  // A cut adds a split to its row, which may have been whole, or to each row of a shared job; rows
  // that share have two splits without any.
  return options_.shared_rows > 1 ? 2 * rows + std::max(2, options_.shared_rows) * cuts : 2 * cuts;
}

}  // namespace octavo::cuda
