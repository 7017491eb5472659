// Which decodes of a step begin with the same blocks, and whether reading those once for several of
// them pays (cascade attention: FlashInfer, Ye et al., 2025). Pure: no device is needed.
#ifndef OCTAVO_WORKER_CUDA_SHARED_PREFIX_H_
#define OCTAVO_WORKER_CUDA_SHARED_PREFIX_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/ids.h"

namespace octavo::cuda {

// Block tables on the host.
struct HostTables {
  // Of each group of layers that a work list is for; SequenceRows::table_begin counts in each of
  // them. Sequences share where all of these agree. Empty: nothing is known.
  std::vector<const BlockId*> groups;
  int32_t block_size = 0;  // tokens
};

// Costs are in tiles of 16 tokens of one row.
struct SharingCosts {
  int32_t rows_per_item = 1;      // that one shared item takes; 1: nothing can be shared
  int32_t heads_per_row = 1;      // query heads of a KV head
  int32_t item_overhead = 0;      // what an item costs beside its tiles
  int32_t merge_overhead = 0;     // what a row costs whose parts are merged
  int32_t columns_per_unit = 32;  // heads of rows whose partial results cost `unit` tiles to write
  int32_t unit = 4;               // and to read
  // What is saved must be this many times what is added: a block read twice may come from the
  // second-level cache the second time, at half the price. 0: share whatever can be.
  int32_t least_gain = 2;

  // Beside its tiles, of an item that `rows` rows share.
  int64_t SharedOverhead(int64_t rows) const;
};

// A decode that sees all positions of its sequence.
struct PrefixRow {
  int32_t index = 0;        // the caller's
  int32_t table_begin = 0;  // into HostTables
  int32_t num_tiles = 0;    // whole ones before the row's own token: what may be shared
};

// The first `num_tiles` tiles of its rows, members[first_member, first_member + num_members) of the
// finder's, are the same blocks: 2 to rows_per_item rows.
struct PrefixGroup {
  int32_t first_member = 0;
  int32_t num_members = 0;
  int32_t num_tiles = 0;
};

// Kept from step to step for its capacity.
//
// Rows are sorted by their first block, and within equal ones compared with one of them, the
// leader. The depth at which the most is gained decides who joins it; the others choose a leader of
// their own, up to kMostLeaders times. So each row's table is read kMostLeaders times at most, and
// only as far as it agrees.
class PrefixFinder {
 public:
  static constexpr int32_t kMostLeaders = 4;

  // REQUIRES: block_size > 0 where tables has groups.
  void Find(const std::vector<PrefixRow>& rows, const HostTables& tables,
            const SharingCosts& costs);

  const std::vector<PrefixGroup>& groups() const { return groups_; }
  const std::vector<int32_t>& members() const { return members_; }  // PrefixRow::index

 private:
  // Of the rows order_[begin, end), which have the first block in common.
  void FindAmong(size_t begin, size_t end, const std::vector<PrefixRow>& rows,
                 const HostTables& tables, const SharingCosts& costs);
  // The leader and the first `followers` of depths_.
  void AddGroups(const std::vector<PrefixRow>& rows, size_t leader, int32_t followers,
                 int32_t rows_per_item);

  std::vector<std::pair<BlockId, int32_t>> order_;  // {first block, place among the rows}
  // Rows that agree with the leader: {tiles in common, place in order_}, the longest first.
  std::vector<std::pair<int32_t, size_t>> depths_;
  std::vector<PrefixGroup> groups_;
  std::vector<int32_t> members_;
};

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_SHARED_PREFIX_H_
