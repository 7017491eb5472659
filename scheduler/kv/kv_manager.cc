#include "scheduler/kv/kv_manager.h"

#include <algorithm>
#include <utility>

#include "common/check.h"

namespace octavo {

KvManager::KvManager(int64_t num_blocks, int32_t block_size, const PrefixCacheConfig& cache)
    : block_size_(block_size),
      pool_(num_blocks),
      cache_(cache, num_blocks, block_size),
      deferred_holders_(static_cast<size_t>(num_blocks) + 1, 0),
      filled_(static_cast<size_t>(num_blocks) + 1, 0) {
  OCTAVO_CHECK(block_size > 0, "block_size=", block_size);
}

BlockId KvManager::Lend() {
  const BlockId block = *pool_.Lend();
  if (cache_.Contains(block)) {
    cache_.Remove(block);
    --num_cached_;
    ++evictions_;
  }
  filled_[block] = 0;
  return block;
}

void KvManager::Share(BlockId block) {
  const int32_t holders = pool_.ref_count(block);
  if (holders == 0) {
    OCTAVO_CHECK(cache_.Contains(block), "free block ", block, " holds nothing to share");
    --num_cached_;
    filled_slots_ += filled_[block];
  } else {
    ++saved_total_;
  }
  if (OnlyDeferred(block)) LeaveDeferred(block);
  pool_.Share(block);
}

void KvManager::Return(BlockId block) {
  if (pool_.Release(block)) {
    num_cached_ += cache_.Contains(block) ? 1 : 0;
    filled_slots_ -= filled_[block];
  } else if (OnlyDeferred(block)) {
    BecomeDeferred(block);
  }
}

int64_t KvManager::BlocksMissing(const BlockTable& table, int64_t tokens) const {
  return std::max<int64_t>(0, BlocksFor(tokens) - table.num_blocks());
}

int64_t KvManager::NumExclusive(const BlockTable& table) const {
  return std::count_if(table.blocks_.begin(), table.blocks_.end(),
                       [this](BlockId block) { return pool_.ref_count(block) == 1; });
}

bool KvManager::Reserve(BlockTable* table, int64_t tokens, std::vector<BlockId>* added) {
  const int64_t missing = BlocksMissing(*table, tokens);
  if (missing > num_free()) return false;
  added->reserve(added->size() + static_cast<size_t>(missing));
  for (int64_t i = 0; i < missing; ++i) {
    const BlockId block = Lend();
    table->blocks_.push_back(block);
    added->push_back(block);
  }
  return true;
}

bool KvManager::ReserveSpare(BlockTable* spare, int64_t blocks) {
  if (blocks > num_free()) return false;
  for (int64_t i = 0; i < blocks; ++i) spare->blocks_.push_back(Lend());
  return true;
}

void KvManager::Adopt(BlockTable* table, std::span<const PrefixRef> blocks) {
  OCTAVO_CHECK(table->empty(), "blocks=", table->num_blocks());
  for (const PrefixRef& ref : blocks) {
    OCTAVO_CHECK(cache_.index().Alive(ref), "block ", ref.block, " was lent again");
    Share(ref.block);
    table->blocks_.push_back(ref.block);
  }
}

void KvManager::Fork(const BlockTable& parent, int64_t blocks, BlockTable* child) {
  OCTAVO_CHECK(child->empty() && blocks <= parent.num_blocks(), "blocks=", blocks, " of ",
               parent.num_blocks());
  for (int64_t i = 0; i < blocks; ++i) {
    const BlockId block = parent.blocks_[static_cast<size_t>(i)];
    Share(block);
    child->blocks_.push_back(block);
  }
}

int64_t KvManager::BlocksToWrite(const BlockTable& table, int64_t position) const {
  const int64_t index = position / block_size_;
  if (index >= table.num_blocks()) return index + 1 - table.num_blocks();
  return pool_.ref_count(table.blocks_[static_cast<size_t>(index)]) > 1 ? 1 : 0;
}

bool KvManager::ReserveToWrite(BlockTable* table, int64_t position, BlockTable* spare,
                               std::vector<BlockId>* added, std::optional<CopyOnWrite>* copy) {
  const int64_t needed = BlocksToWrite(*table, position);
  if (needed == 0) return true;
  OCTAVO_CHECK(needed == 1, "position=", position, " blocks=", table->num_blocks());
  BlockId block = kPaddingBlock;
  if (!spare->empty()) {
    block = spare->blocks_.back();
    spare->blocks_.pop_back();
  } else {
    if (num_free() == 0) return false;
    block = Lend();
  }
  const size_t index = static_cast<size_t>(position / block_size_);
  if (index == table->blocks_.size()) {
    table->blocks_.push_back(block);
    added->push_back(block);
    return true;
  }
  BlockId& entry = table->blocks_[index];
  *copy = CopyOnWrite{static_cast<int32_t>(index), {entry, block}};
  Return(entry);  // others hold it still, so it is not lent again in this step (step.4)
  entry = block;
  Fill(*table, static_cast<int64_t>(index) * block_size_, position);
  ++copies_on_write_;
  return true;
}

void KvManager::Fill(const BlockTable& table, int64_t from, int64_t to) {
  for (int64_t i = from / block_size_; i * block_size_ < to; ++i) {
    int32_t& filled = filled_[table.blocks_[static_cast<size_t>(i)]];
    const int32_t now = static_cast<int32_t>(std::min<int64_t>(block_size_, to - i * block_size_));
    if (now <= filled) continue;
    filled_slots_ += now - filled;
    filled = now;
  }
}

void KvManager::Release(BlockTable* table, StepId last_step) {
  if (table->empty()) return;
  if (last_step <= committed_) {
    std::vector<BlockId>& blocks = table->blocks_;
    for (; !blocks.empty(); blocks.pop_back()) Return(blocks.back());
    return;
  }
  for (const BlockId block : table->blocks_) {
    ++deferred_holders_[block];
    if (OnlyDeferred(block)) BecomeDeferred(block);
  }
  deferred_.push_back({last_step, std::move(*table)});
}

void KvManager::ReleaseNow(Deferred* deferred) {
  std::vector<BlockId>& blocks = deferred->table.blocks_;
  for (; !blocks.empty(); blocks.pop_back()) {
    const BlockId block = blocks.back();
    if (OnlyDeferred(block)) LeaveDeferred(block);
    --deferred_holders_[block];
    Return(block);
  }
}

void KvManager::CommitStep(StepId step) {
  OCTAVO_CHECK(step == committed_ + 1, "step=", step, " committed=", committed_);
  committed_ = step;
  size_t kept = 0;
  for (size_t i = 0; i < deferred_.size(); ++i) {
    if (deferred_[i].last_step <= step) {
      ReleaseNow(&deferred_[i]);
    } else {
      if (kept != i) deferred_[kept] = std::move(deferred_[i]);
      ++kept;
    }
  }
  deferred_.resize(kept);
}

void KvManager::ForgetSteps() {
  FlushCache();
  for (Deferred& deferred : deferred_) ReleaseNow(&deferred);
  deferred_.clear();
  committed_ = 0;
}

void KvManager::Publish(const BlockTable& table, std::span<const TokenId> tokens, int64_t committed,
                        PrefixChain* chain) {
  displaced_.clear();
  cache_.Publish(chain, table.blocks_, tokens, committed / block_size_, &displaced_);
  for (const BlockId block : displaced_) num_cached_ -= pool_.ref_count(block) == 0 ? 1 : 0;
}

int64_t KvManager::NumFree(std::span<const PrefixRef> blocks) const {
  return std::count_if(blocks.begin(), blocks.end(),
                       [this](const PrefixRef& ref) { return pool_.ref_count(ref.block) == 0; });
}

int64_t KvManager::FlushCache() {
  const int64_t forgotten = cache_.index().size();
  cache_.Clear();
  num_cached_ = 0;
  return forgotten;
}

void KvManager::CheckInvariants(const std::vector<const BlockTable*>& tables) const {
  pool_.CheckInvariants();
  cache_.index().CheckInvariants();
  const size_t entries = static_cast<size_t>(num_blocks()) + 1;
  std::vector<int32_t> holders(entries, 0);
  std::vector<int32_t> deferred_holders(entries, 0);
  const auto count = [&](const BlockTable& table, std::vector<int32_t>* counts) {
    for (const BlockId block : table.blocks()) {
      OCTAVO_CHECK(block > kPaddingBlock && block <= num_blocks(), "block=", block);
      ++(*counts)[block];
    }
  };
  for (const BlockTable* table : tables) count(*table, &holders);
  for (const Deferred& deferred : deferred_) {
    OCTAVO_CHECK(deferred.last_step > committed_, "deferred past step ", deferred.last_step);
    count(deferred.table, &holders);
    count(deferred.table, &deferred_holders);
  }
  OCTAVO_CHECK(deferred_holders == deferred_holders_, "deferred holders are miscounted");
  int64_t only_deferred = 0;
  int64_t cached = 0;
  int64_t filled = 0;
  for (BlockId block = 1; block <= num_blocks(); ++block) {
    OCTAVO_CHECK(holders[block] == pool_.ref_count(block), "block=", block,
                 " holders=", holders[block], " count=", pool_.ref_count(block));
    only_deferred += OnlyDeferred(block) ? 1 : 0;
    filled += holders[block] > deferred_holders[block] ? filled_[block] : 0;
    cached += holders[block] == 0 && cache_.Contains(block) ? 1 : 0;
  }
  OCTAVO_CHECK(only_deferred == num_deferred_, "deferred=", num_deferred_,
               " counted=", only_deferred);
  OCTAVO_CHECK(filled == filled_slots_, "filled=", filled_slots_, " counted=", filled);
  OCTAVO_CHECK(cached == num_cached_, "cached=", num_cached_, " counted=", cached);
}

void KvManager::CheckWritable(const BlockTable& table, int64_t position) const {
  for (int64_t i = position / block_size_; i < table.num_blocks(); ++i) {
    const BlockId block = table.blocks_[static_cast<size_t>(i)];
    const bool partly_filled = i * block_size_ < position;
    OCTAVO_CHECK(!cache_.Contains(block), "published block ", block, " would be written");
    OCTAVO_CHECK(partly_filled || pool_.ref_count(block) == 1, "block ", block, " has ",
                 pool_.ref_count(block), " writers");
  }
}

}  // namespace octavo
