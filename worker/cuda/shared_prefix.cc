#include "worker/cuda/shared_prefix.h"

#include <algorithm>

#include "common/check.h"
#include "worker/cuda/kernels/attention_items.h"

namespace octavo::cuda {
namespace {

constexpr int32_t kTaken = -1;

// Whole tiles that both begin with, at most `most`.
int32_t TilesInCommon(const HostTables& tables, const PrefixRow& a, const PrefixRow& b) {
  const int32_t most = std::min(a.num_tiles, b.num_tiles);
  const int64_t tokens = int64_t{most} * kTileTokens;
  const auto blocks = static_cast<std::ptrdiff_t>(tokens / tables.block_size);
  std::ptrdiff_t common = blocks;
  for (const BlockId* table : tables.groups) {
    const BlockId* const begin = table + a.table_begin;
    common = std::mismatch(begin, begin + common, table + b.table_begin).first - begin;
  }
  return static_cast<int32_t>(int64_t{common} * tables.block_size / kTileTokens);
}

// In tiles; positive where it pays that `rows` rows share `num_tiles`.
int64_t Gain(const SharingCosts& costs, int64_t rows, int64_t num_tiles) {
  const int64_t whole = rows / costs.rows_per_item, rest = rows % costs.rows_per_item;
  const int64_t saved = (rows - whole - (rest > 0 ? 1 : 0)) * num_tiles;
  const int64_t added = whole * costs.SharedOverhead(costs.rows_per_item) +
                        (rest > 0 ? costs.SharedOverhead(rest) : 0) + rows * costs.merge_overhead;
  return saved - costs.least_gain * added;
}

}  // namespace

int64_t SharingCosts::SharedOverhead(int64_t rows) const {
  const int64_t columns = rows * heads_per_row;
  return item_overhead + (columns + columns_per_unit - 1) / columns_per_unit * unit;
}

void PrefixFinder::Find(const std::vector<PrefixRow>& rows, const HostTables& tables,
                        const SharingCosts& costs) {
  groups_.clear();
  members_.clear();
  order_.clear();
  if (tables.groups.empty() || costs.rows_per_item < 2) return;
  OCTAVO_CHECK(tables.block_size > 0);
  for (size_t i = 0; i < rows.size(); ++i)
    if (rows[i].num_tiles > 0)
      order_.emplace_back(tables.groups.front()[rows[i].table_begin], static_cast<int32_t>(i));
  std::sort(order_.begin(), order_.end());
  for (size_t begin = 0, end = 0; begin < order_.size(); begin = end) {
    while (end < order_.size() && order_[end].first == order_[begin].first) ++end;
    FindAmong(begin, end, rows, tables, costs);
  }
}

void PrefixFinder::FindAmong(size_t begin, size_t end, const std::vector<PrefixRow>& rows,
                             const HostTables& tables, const SharingCosts& costs) {
  size_t leader = begin;
  for (int32_t round = 0; round < kMostLeaders; ++round, ++leader) {
    while (leader < end && order_[leader].second == kTaken) ++leader;
    if (leader >= end) return;
    depths_.clear();
    for (size_t at = leader + 1; at < end; ++at) {
      if (order_[at].second == kTaken) continue;
      const int32_t tiles = TilesInCommon(tables, rows[static_cast<size_t>(order_[leader].second)],
                                          rows[static_cast<size_t>(order_[at].second)]);
      if (tiles > 0) depths_.emplace_back(tiles, at);
    }
    std::stable_sort(depths_.begin(), depths_.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    int64_t best = 0;
    int32_t followers = 0;
    for (size_t i = 0; i < depths_.size(); ++i) {
      const auto sharing = static_cast<int64_t>(i) + 2;
      if (sharing % costs.rows_per_item == 1) continue;  // the last item would have one row
      const int64_t gain = Gain(costs, sharing, depths_[i].first);
      if (gain <= best) continue;
      best = gain;
      followers = static_cast<int32_t>(i) + 1;
    }
    if (followers == 0) continue;
    AddGroups(rows, leader, followers, costs.rows_per_item);
  }
}

void PrefixFinder::AddGroups(const std::vector<PrefixRow>& rows, size_t leader, int32_t followers,
                             int32_t rows_per_item) {
  const int32_t num_tiles = depths_[static_cast<size_t>(followers) - 1].first;
  for (int32_t i = 0; i <= followers; ++i) {
    const size_t at = i == 0 ? leader : depths_[static_cast<size_t>(i) - 1].second;
    if (i % rows_per_item == 0)
      groups_.push_back({static_cast<int32_t>(members_.size()), 0, num_tiles});
    members_.push_back(rows[static_cast<size_t>(order_[at].second)].index);
    ++groups_.back().num_members;
    order_[at].second = kTaken;
  }
}

}  // namespace octavo::cuda
