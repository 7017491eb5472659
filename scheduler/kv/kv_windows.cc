// KvManager: the blocks of groups of layers that see a window of the tokens only (kv.7).
#include <algorithm>
#include <utility>

#include "common/check.h"
#include "scheduler/kv/kv_manager.h"

namespace octavo {

int64_t KvManager::WindowsMissing(const BlockTable& table, int64_t from, int64_t to) const {
  int64_t blocks = 0;
  if (num_windowed() == 0) return 0;
  for (int64_t row = from / block_size_; row * block_size_ < to; ++row) {
    for (int64_t group = num_keeping_; group < num_groups_; ++group) {
      blocks += table.blocks_[At(row, group)] == kPaddingBlock ? 1 : 0;
    }
  }
  return blocks;
}

bool KvManager::ReserveWindows(BlockTable* table, int64_t from, int64_t to, BlockTable* spare,
                               std::vector<BlockReplacement>* lent) {
  const int64_t missing = WindowsMissing(*table, from, to);
  if (missing == 0) return true;
  if (missing > spare->num_blocks() + num_free()) return false;
  lent->reserve(lent->size() + static_cast<size_t>(missing));
  for (int64_t row = from / block_size_; row * block_size_ < to; ++row) {
    for (int64_t group = num_keeping_; group < num_groups_; ++group) {
      BlockId& entry = table->blocks_[At(row, group)];
      if (entry != kPaddingBlock) continue;
      entry = TakeFrom(spare);
      lent->push_back({static_cast<int32_t>(At(row, group)), entry});
    }
  }
  return true;
}

void KvManager::Slide(BlockTable* table, int64_t committed, BlockTable* keep) {
  if (num_windowed() == 0) return;
  for (int64_t group = num_keeping_; group < num_groups_; ++group) {
    const int32_t window = windows_[static_cast<size_t>(group)];
    const int64_t end = std::min(FirstRow(committed, window), NumRows(*table));
    for (int64_t row = FirstRow(table->slid_, window); row < end; ++row) {
      const BlockId block = std::exchange(table->blocks_[At(row, group)], kPaddingBlock);
      if (block == kPaddingBlock) continue;
      if (keep == nullptr || pool_.ref_count(block) > 1) {
        Return(block);
      } else if (keep->borrowed_ > 0) {
        --keep->borrowed_;
        Return(block);
      } else {
        if (cache_.Contains(block)) {
          displaced_.clear();
          cache_.Remove(block, &displaced_);
          Forget(displaced_);
        }
        filled_slots_ -= std::exchange(filled_[block], 0);
        keep->blocks_.push_back(block);
      }
    }
  }
  table->slid_ = committed;
}

int64_t KvManager::BlocksSliding(const BlockTable& table, int64_t committed) const {
  int64_t blocks = 0;
  for (int64_t group = num_keeping_; group < num_groups_; ++group) {
    const int32_t window = windows_[static_cast<size_t>(group)];
    const int64_t end = std::min(FirstRow(committed, window), NumRows(table));
    for (int64_t row = FirstRow(table.slid_, window); row < end; ++row) {
      blocks += table.blocks_[At(row, group)] != kPaddingBlock ? 1 : 0;
    }
  }
  return blocks;
}

void KvManager::ForkAhead(const BlockTable& parent, int64_t rows, BlockTable* child) {
  OCTAVO_CHECK(child->empty() && rows <= NumRows(parent), "rows=", rows);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t group = 0; group < num_groups_; ++group) {
      const BlockId block = group < num_keeping_ ? parent.blocks_[At(row, group)] : kPaddingBlock;
      if (block != kPaddingBlock) Share(block);
      child->blocks_.push_back(block);
    }
  }
  child->slid_ = rows * block_size_;
}

void KvManager::ShareWindows(const BlockTable& parent, int64_t tokens, BlockTable* child) {
  for (int64_t group = num_keeping_; group < num_groups_; ++group) {
    const int32_t window = windows_[static_cast<size_t>(group)];
    for (int64_t row = FirstRow(tokens, window); row * block_size_ < tokens; ++row) {
      const BlockId block = parent.blocks_[At(row, group)];
      OCTAVO_CHECK(block != kPaddingBlock && child->blocks_[At(row, group)] == kPaddingBlock,
                   "row=", row, " group=", group);
      Share(block);
      child->blocks_[At(row, group)] = block;
    }
  }
}

int64_t KvManager::NumFreeInWindows(std::span<const PrefixRef> rows) const {
  const int64_t count = static_cast<int64_t>(rows.size());
  int64_t blocks = 0;
  for (int64_t group = num_keeping_; group < num_groups_; ++group) {
    const int32_t window = windows_[static_cast<size_t>(group)];
    for (int64_t row = FirstRow(count * block_size_, window); row < count; ++row) {
      const BlockId block =
          cache_.index().BlockOf(rows[static_cast<size_t>(row)], static_cast<int32_t>(group));
      blocks += pool_.ref_count(block) == 0 ? 1 : 0;
    }
  }
  return blocks;
}

void KvManager::CheckWindows(const BlockTable& table, int64_t computed) const {
  for (int64_t group = num_keeping_; group < num_groups_; ++group) {
    const int64_t first = FirstRow(table.slid_, windows_[static_cast<size_t>(group)]);
    for (int64_t row = 0; row < NumRows(table); ++row) {
      const bool held = table.blocks_[At(row, group)] != kPaddingBlock;
      OCTAVO_CHECK(held || row < first || row * block_size_ >= computed, "group=", group,
                   " lacks row ", row, " of ", computed, " tokens");
      OCTAVO_CHECK(!held || row >= first, "group=", group, " holds row ", row,
                   ", which its window has left");
    }
  }
}

}  // namespace octavo
