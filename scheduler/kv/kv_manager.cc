#include "scheduler/kv/kv_manager.h"

#include <algorithm>
#include <utility>

#include "common/check.h"

namespace octavo {

KvManager::KvManager(int64_t num_blocks, int32_t block_size, const PrefixCacheConfig& cache,
                     const std::vector<int32_t>& windows)
    : block_size_(block_size),
      windows_(windows),
      num_groups_(static_cast<int64_t>(windows.size())),
      num_keeping_(std::count(windows.begin(), windows.end(), 0)),
      pool_(num_blocks),
      cache_(cache, num_blocks, block_size, windows),
      deferred_holders_(static_cast<size_t>(num_blocks) + 1, 0),
      filled_(static_cast<size_t>(num_blocks) + 1, 0) {
  OCTAVO_CHECK(block_size > 0 && num_groups_ > 0, "block_size=", block_size,
               " groups=", num_groups_);
  OCTAVO_CHECK(std::all_of(windows.begin() + num_keeping_, windows.end(),
                           [](int32_t window) { return window > 0; }),
               "groups that see all come first");
}

BlockId KvManager::Lend() {
  const BlockId block = *pool_.Lend();
  if (cache_.Contains(block)) {
    displaced_.clear();
    cache_.Remove(block, &displaced_);
    Forget(displaced_);
    --num_cached_;
    ++evictions_;
  }
  filled_[block] = 0;
  cache_.ExpectRemoval(pool_.next_free());
  return block;
}

BlockId KvManager::TakeFrom(BlockTable* spare) {
  if (spare->empty()) {
    ++spare->borrowed_;
    return Lend();
  }
  const BlockId block = spare->blocks_.back();
  spare->blocks_.pop_back();
  return block;
}

void KvManager::Forget(const std::vector<BlockId>& displaced) {
  for (const BlockId block : displaced) num_cached_ -= pool_.ref_count(block) == 0 ? 1 : 0;
}

void KvManager::Share(BlockId block) {
  const int32_t holders = pool_.ref_count(block);
  if (holders == 0) {
    num_cached_ -= cache_.Contains(block) ? 1 : 0;
    filled_slots_ += filled_[block];
  } else {
    ++saved_total_;
  }
  if (OnlyDeferred(block)) LeaveDeferred(block);
  pool_.Share(block);
}

void KvManager::Return(BlockId block, bool ended) {
  if (pool_.Release(block, /*worthless=*/ended && caches() && !cache_.Contains(block))) {
    num_cached_ += cache_.Contains(block) ? 1 : 0;
    filled_slots_ -= filled_[block];
  } else if (OnlyDeferred(block)) {
    BecomeDeferred(block);
  }
}

int64_t KvManager::BlocksMissing(const BlockTable& table, int64_t tokens) const {
  const int64_t entries = BlocksFor(tokens) * num_groups_;
  if (entries <= table.num_blocks()) return 0;
  return (entries - table.num_blocks()) / num_groups_ * num_keeping_;
}

int64_t KvManager::NumExclusive(const BlockTable& table) const {
  return std::count_if(table.blocks_.begin(), table.blocks_.end(), [this](BlockId block) {
    return block != kPaddingBlock && pool_.ref_count(block) == 1;
  });
}

bool KvManager::Reserve(BlockTable* table, int64_t tokens, std::vector<BlockId>* added) {
  if (BlocksMissing(*table, tokens) > num_free()) return false;
  const size_t entries = static_cast<size_t>(BlocksFor(tokens) * num_groups_);
  if (entries <= table->blocks_.size()) return true;
  added->reserve(added->size() + entries - table->blocks_.size());
  for (int64_t group = 0; table->blocks_.size() < entries;) {
    const BlockId block = group < num_keeping_ ? Lend() : kPaddingBlock;
    table->blocks_.push_back(block);
    added->push_back(block);
    if (++group == num_groups_) group = 0;
  }
  return true;
}

bool KvManager::Promise(BlockTable* table, int64_t tokens) {
  OCTAVO_CHECK(num_windowed() == 0 && table->promised_ == 0, "promised=", table->promised_);
  const int64_t blocks = BlocksMissing(*table, tokens);
  if (blocks > num_free()) return false;
  table->promised_ = blocks;
  promised_ += blocks;
  return true;
}

void KvManager::TakePromised(BlockTable* table, int64_t tokens, std::vector<BlockId>* added) {
  const int64_t blocks = BlocksMissing(*table, tokens);
  OCTAVO_CHECK(blocks <= table->promised_, "blocks=", blocks, " promised=", table->promised_);
  table->promised_ -= blocks;
  promised_ -= blocks;
  OCTAVO_CHECK(Reserve(table, tokens, added), "tokens=", tokens, " free=", num_free());
}

bool KvManager::ReserveRun(BlockTable* table, int64_t tokens) {
  OCTAVO_CHECK(table->empty() && !caches() && num_groups_ == 1, "blocks=", table->num_blocks());
  const int64_t count = BlocksFor(tokens);
  const std::optional<BlockId> first = pool_.FindRun(count);
  if (!first.has_value()) return false;
  table->blocks_.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const BlockId block = *first + static_cast<BlockId>(i);
    pool_.LendThis(block);
    filled_[block] = 0;
    table->blocks_.push_back(block);
  }
  return true;
}

bool KvManager::ReserveSpare(BlockTable* spare, int64_t blocks) {
  if (blocks > num_free()) return false;
  for (int64_t i = 0; i < blocks; ++i) spare->blocks_.push_back(Lend());
  return true;
}

void KvManager::Adopt(BlockTable* table, std::span<const PrefixRef> rows) {
  OCTAVO_CHECK(table->empty(), "blocks=", table->num_blocks());
  const int64_t tokens = static_cast<int64_t>(rows.size()) * block_size_;
  for (size_t row = 0; row < rows.size(); ++row) {
    OCTAVO_CHECK(cache_.index().Alive(rows[row]), "block ", rows[row].block, " was lent again");
    for (int32_t group = 0; group < num_groups_; ++group) {
      const int32_t window = windows_[static_cast<size_t>(group)];
      const bool left = static_cast<int64_t>(row) < FirstRow(tokens, window);
      const BlockId block = left ? kPaddingBlock : cache_.index().BlockOf(rows[row], group);
      if (!left) Share(block);
      table->blocks_.push_back(block);
    }
  }
  table->slid_ = tokens;
}

void KvManager::Fork(BlockTable* parent, int64_t rows, BlockTable* child) {
  const int64_t entries = rows * num_groups_;
  OCTAVO_CHECK(child->empty() && entries <= parent->num_blocks(), "entries=", entries, " of ",
               parent->num_blocks());
  parent->writable_ = 0;
  for (int64_t i = 0; i < entries; ++i) {
    const BlockId block = parent->blocks_[static_cast<size_t>(i)];
    if (block != kPaddingBlock) Share(block);
    child->blocks_.push_back(block);
  }
  child->slid_ = parent->slid_;
}

RetainedTable KvManager::Retain(const BlockTable& table, int32_t tokens) const {
  RetainedTable retained;
  const size_t held = static_cast<size_t>(BlocksFor(tokens));
  OCTAVO_CHECK(retains() && held <= table.blocks_.size(), "tokens=", tokens,
               " blocks=", table.num_blocks());
  retained.tokens = tokens;
  retained.blocks.reserve(held);
  for (size_t i = 0; i < held; ++i) {
    const BlockId block = table.blocks_[i];
    if (retained.shared_tokens == static_cast<int64_t>(i) * block_size_ &&
        pool_.ref_count(block) > 1) {
      retained.shared_tokens = static_cast<int32_t>((i + 1) * static_cast<size_t>(block_size_));
    }
    retained.blocks.push_back({block, pool_.lendings(block)});
  }
  return retained;
}

void KvManager::Resume(BlockTable* table, std::span<const RetainedBlock> blocks, int64_t tokens,
                       bool reuse, std::vector<BlockSwap>* swap_ins) {
  // The intact ones first, all of them: a new one could be one of those.
  const size_t begin = table->blocks_.size();
  for (const RetainedBlock& retained : blocks) {
    const bool intact = reuse && Intact(retained);
    if (intact) Share(retained.block);
    table->blocks_.push_back(intact ? retained.block : kPaddingBlock);
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    BlockId& entry = table->blocks_[begin + i];
    if (entry != kPaddingBlock) continue;
    OCTAVO_CHECK(blocks[i].host != kPaddingBlock && num_free() > 0, "block ", blocks[i].block);
    entry = Lend();
    swap_ins->push_back({entry, blocks[i].host});
  }
  Fill(*table, static_cast<int64_t>(begin) * block_size_, tokens);
}

int64_t KvManager::LookToWrite(const BlockTable& table, int64_t position) const {
  const int64_t row = position / block_size_;
  const int64_t begin = row * num_groups_;
  if (begin >= table.num_blocks()) {
    return begin + num_groups_ - table.num_blocks() - table.promised_;
  }
  int64_t blocks = 0;
  for (int64_t i = begin; i < begin + num_groups_; ++i) {
    const BlockId block = table.blocks_[static_cast<size_t>(i)];
    blocks += block == kPaddingBlock || HeldByOthers(block) ? 1 : 0;
  }
  return blocks;
}

bool KvManager::ReserveToWrite(BlockTable* table, int64_t position, BlockTable* spare,
                               std::vector<BlockId>* added, std::vector<CopyOnWrite>* copies) {
  if (position < table->writable_) return true;
  const int64_t needed = BlocksToWrite(*table, position);
  if (needed > spare->num_blocks() + num_free()) return false;
  table->writable_ = (position / block_size_ + 1) * block_size_;
  if (needed == 0) return true;
  OCTAVO_CHECK(needed <= num_groups_, "position=", position, " blocks=", table->num_blocks());
  const size_t begin = static_cast<size_t>(position / block_size_ * num_groups_);
  if (begin == table->blocks_.size()) {
    added->reserve(added->size() + static_cast<size_t>(num_groups_));
    for (int64_t group = 0; group < num_groups_; ++group) {
      const BlockId block = TakeFrom(spare);
      table->blocks_.push_back(block);
      added->push_back(block);
    }
    return true;
  }
  for (size_t i = begin; i < begin + static_cast<size_t>(num_groups_); ++i) {
    BlockId& entry = table->blocks_[i];
    const bool shared = entry != kPaddingBlock;
    if (shared && !HeldByOthers(entry)) continue;
    const BlockId block = TakeFrom(spare);
    copies->push_back({static_cast<int32_t>(i), {entry, block}});
    // Others hold it still, so it is not lent again in this step (step.4).
    if (shared) Return(entry);
    entry = block;
    copies_on_write_ += shared ? 1 : 0;
  }
  Fill(*table, position / block_size_ * block_size_, position);
  return true;
}

void KvManager::Fill(const BlockTable& table, int64_t from, int64_t to) {
  int64_t row = from / block_size_;
  const BlockId* block = table.blocks_.data() + row * num_groups_;
  for (; row * block_size_ < to; ++row) {
    const int32_t now =
        static_cast<int32_t>(std::min<int64_t>(block_size_, to - row * block_size_));
    for (const BlockId* const end = block + num_groups_; block < end; ++block) {
      int32_t& filled = filled_[*block];
      if (now <= filled || *block == kPaddingBlock) continue;
      filled_slots_ += now - filled;
      filled = now;
    }
  }
}

void KvManager::Release(BlockTable* table, StepId last_step, bool ended) {
  table->slid_ = table->borrowed_ = table->writable_ = 0;
  promised_ -= std::exchange(table->promised_, 0);
  if (table->empty()) return;
  if (last_step <= committed_) {
    std::vector<BlockId>& blocks = table->blocks_;
    for (; !blocks.empty(); blocks.pop_back()) {
      if (blocks.back() != kPaddingBlock) Return(blocks.back(), ended);
    }
    return;
  }
  for (const BlockId block : table->blocks_) {
    if (block == kPaddingBlock) continue;
    ++deferred_holders_[block];
    if (OnlyDeferred(block)) BecomeDeferred(block);
  }
  deferred_.push_back({last_step, ended, std::move(*table)});
}

void KvManager::ReleaseNow(Deferred* deferred) {
  std::vector<BlockId>& blocks = deferred->table.blocks_;
  for (; !blocks.empty(); blocks.pop_back()) {
    const BlockId block = blocks.back();
    if (block == kPaddingBlock) continue;
    if (OnlyDeferred(block)) LeaveDeferred(block);
    --deferred_holders_[block];
    Return(block, deferred->ended);
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
  Forget(displaced_);
}

int64_t KvManager::NumFree(std::span<const PrefixRef> rows, int64_t first) const {
  int64_t blocks = 0;
  for (size_t row = static_cast<size_t>(first); row < rows.size(); ++row) {
    for (int32_t group = 0; group < num_keeping_; ++group) {
      blocks += pool_.ref_count(cache_.index().BlockOf(rows[row], group)) == 0 ? 1 : 0;
    }
  }
  return blocks;
}

int64_t KvManager::FlushCache() {
  const int64_t forgotten = cache_.index().num_blocks();
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
  int64_t promised = 0;
  const auto count = [&](const BlockTable& table, std::vector<int32_t>* counts) {
    promised += table.promised();
    for (const BlockId block : table.blocks()) {
      OCTAVO_CHECK(block >= kPaddingBlock && block <= num_blocks(), "block=", block);
      OCTAVO_CHECK(block != kPaddingBlock || num_windowed() > 0, "a table lacks a block");
      ++(*counts)[block];
    }
    (*counts)[kPaddingBlock] = 0;
  };
  for (const BlockTable* table : tables) count(*table, &holders);
  for (const Deferred& deferred : deferred_) {
    OCTAVO_CHECK(deferred.last_step > committed_, "deferred past step ", deferred.last_step);
    count(deferred.table, &holders);
    count(deferred.table, &deferred_holders);
  }
  OCTAVO_CHECK(promised == promised_ && num_free() >= 0, "promised=", promised_,
               " counted=", promised, " free=", num_free());
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
  for (int64_t row = position / block_size_; row < NumRows(table); ++row) {
    for (int64_t group = 0; group < num_groups_; ++group) {
      const BlockId block = table.blocks_[At(row, group)];
      if (block == kPaddingBlock) continue;
      const bool partly_filled = row * block_size_ < position;
      OCTAVO_CHECK(!cache_.Contains(block), "published block ", block, " would be written");
      OCTAVO_CHECK(partly_filled || !HeldByOthers(block), "block ", block, " has ",
                   pool_.ref_count(block), " writers");
    }
  }
}

}  // namespace octavo
