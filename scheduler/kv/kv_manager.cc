#include "scheduler/kv/kv_manager.h"

#include <algorithm>
#include <utility>

#include "common/check.h"

namespace octavo {

KvManager::KvManager(int64_t num_blocks, int32_t block_size)
    : block_size_(block_size), pool_(num_blocks) {
  OCTAVO_CHECK(block_size > 0, "block_size=", block_size);
}

int64_t KvManager::BlocksMissing(const BlockTable& table, int64_t tokens) const {
  return std::max<int64_t>(0, BlocksFor(tokens) - table.num_blocks());
}

bool KvManager::Reserve(BlockTable* table, int64_t tokens, std::vector<BlockId>* added) {
  const int64_t missing = BlocksMissing(*table, tokens);
  if (missing > num_free()) return false;
  added->reserve(added->size() + static_cast<size_t>(missing));
  for (int64_t i = 0; i < missing; ++i) {
    const BlockId block = *pool_.Lend();
    table->blocks_.push_back(block);
    added->push_back(block);
  }
  return true;
}

void KvManager::Release(BlockTable* table, StepId last_step) {
  if (table->empty()) return;
  if (last_step <= committed_) {
    ReleaseNow(table);
    return;
  }
  // A block that another table shares does not turn free with this one.
  const int64_t counted =
      std::count_if(table->blocks_.begin(), table->blocks_.end(),
                    [this](BlockId block) { return pool_.ref_count(block) == 1; });
  num_deferred_ += counted;
  deferred_.push_back({last_step, counted, std::move(*table)});
}

void KvManager::CommitStep(StepId step) {
  OCTAVO_CHECK(step == committed_ + 1, "step=", step, " committed=", committed_);
  committed_ = step;
  size_t kept = 0;
  for (size_t i = 0; i < deferred_.size(); ++i) {
    if (deferred_[i].last_step <= step) {
      num_deferred_ -= deferred_[i].counted;
      ReleaseNow(&deferred_[i].table);
    } else {
      if (kept != i) deferred_[kept] = std::move(deferred_[i]);
      ++kept;
    }
  }
  deferred_.resize(kept);
}

void KvManager::ForgetSteps() {
  for (Deferred& deferred : deferred_) ReleaseNow(&deferred.table);
  deferred_.clear();
  num_deferred_ = 0;
  committed_ = 0;
}

void KvManager::ReleaseNow(BlockTable* table) {
  std::vector<BlockId>& blocks = table->blocks_;
  while (!blocks.empty()) {
    pool_.Release(blocks.back());
    blocks.pop_back();
  }
}

void KvManager::CheckInvariants(const std::vector<const BlockTable*>& tables) const {
  pool_.CheckInvariants();
  std::vector<int32_t> holders(static_cast<size_t>(num_blocks()) + 1, 0);
  const auto count = [&](const BlockTable& table) {
    for (const BlockId block : table.blocks()) {
      OCTAVO_CHECK(block > kPaddingBlock && block <= num_blocks(), "block=", block);
      ++holders[block];
    }
  };
  for (const BlockTable* table : tables) count(*table);
  for (const Deferred& deferred : deferred_) {
    OCTAVO_CHECK(deferred.last_step > committed_, "deferred past step ", deferred.last_step);
    count(deferred.table);
  }
  for (BlockId block = 1; block <= num_blocks(); ++block) {
    OCTAVO_CHECK(holders[block] == pool_.ref_count(block), "block=", block,
                 " holders=", holders[block], " count=", pool_.ref_count(block));
    // Nothing publishes or forks yet, so a second holder would be a second writer (kv.2).
    OCTAVO_CHECK(holders[block] <= 1, "block ", block, " has ", holders[block], " writers");
  }
}

}  // namespace octavo
