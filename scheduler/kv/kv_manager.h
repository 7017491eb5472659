// Lends blocks to tables and takes them back: the one place where block counts change.
#ifndef OCTAVO_SCHEDULER_KV_KV_MANAGER_H_
#define OCTAVO_SCHEDULER_KV_KV_MANAGER_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/ids.h"
#include "common/step.h"
#include "scheduler/kv/block_pool.h"
#include "scheduler/kv/block_table.h"
#include "scheduler/kv/prefix_cache.h"

namespace octavo {

// A shared block is about to be written: the table's entry `index` has become `copy.target`.
struct CopyOnWrite {
  int32_t index = 0;
  BlockCopy copy;
};

// Knows tables and steps, no requests. Single-threaded and deterministic.
//
// Blocks come back in two ways: at once, when every step that named the table is committed, or when
// the last such step is (life.1). In between they are `deferred`: neither free nor of use.
//
// A free block that the prefix index names is `cached`: it is lent like any other when its turn
// comes, and only then leaves the index (kv.5).
class KvManager {
 public:
  KvManager(int64_t num_blocks, int32_t block_size) : KvManager(num_blocks, block_size, {}) {}
  KvManager(int64_t num_blocks, int32_t block_size, const PrefixCacheConfig& cache);

  int32_t block_size() const { return block_size_; }  // tokens
  int64_t num_blocks() const { return pool_.num_blocks(); }
  int64_t num_free() const { return pool_.num_free(); }  // cached ones included
  int64_t num_cached() const { return num_cached_; }
  int64_t num_shared() const { return pool_.num_shared(); }
  int64_t num_saved() const { return pool_.num_saved(); }
  // Blocks that turn free when the steps in flight are committed.
  int64_t num_deferred() const { return num_deferred_; }
  uint64_t evictions() const { return evictions_; }
  uint64_t copies_on_write() const { return copies_on_write_; }
  // References made to blocks that another table held already.
  uint64_t saved_total() const { return saved_total_; }
  bool caches() const { return cache_.enabled(); }
  // Slots of the blocks that tables hold, deferred ones not counted, each block once however many
  // hold it; and how many of those slots have a token, written or about to be by a step in flight.
  int64_t held_slots() const { return (num_blocks() - num_free() - num_deferred_) * block_size_; }
  int64_t filled_slots() const { return filled_slots_; }

  int64_t BlocksFor(int64_t tokens) const { return (tokens + block_size_ - 1) / block_size_; }
  // Blocks that `table` lacks to hold `tokens` tokens; 0 when it holds enough.
  int64_t BlocksMissing(const BlockTable& table, int64_t tokens) const;
  bool CanReserve(const BlockTable& table, int64_t tokens) const {
    return BlocksMissing(table, tokens) <= num_free();
  }
  // Blocks of `table` that no other table holds.
  int64_t NumExclusive(const BlockTable& table) const;
  int32_t ref_count(BlockId block) const { return pool_.ref_count(block); }
  // Memory for the entries of `max_tokens` tokens, so that later reservations allocate nothing.
  void Prepare(BlockTable* table, int64_t max_tokens) const {
    table->blocks_.reserve(static_cast<size_t>(BlocksFor(max_tokens)));
  }
  // Makes `table` hold `tokens` tokens and appends the blocks it gained to `added`. All or nothing:
  // false when too few are free (kv.4).
  bool Reserve(BlockTable* table, int64_t tokens, std::vector<BlockId>* added);
  // `blocks` more blocks, whatever they will be for. All or nothing.
  bool ReserveSpare(BlockTable* spare, int64_t blocks);
  // Empties `table`. Its blocks return tail first (kv.5), once `last_step`, the last step that
  // named them, is committed; 0: no step did.
  void Release(BlockTable* table, StepId last_step);

  // Sharing. A table that begins with shared blocks must never write into them: full ones are not
  // written any more, and the partly filled last one is copied by ReserveToWrite.
  //
  // An empty `table` begins with `blocks`, found in the index.
  void Adopt(BlockTable* table, std::span<const PrefixRef> blocks);
  // An empty `child` begins with the first `blocks` of `parent`.
  void Fork(const BlockTable& parent, int64_t blocks, BlockTable* child);
  // Blocks that ReserveToWrite needs.
  int64_t BlocksToWrite(const BlockTable& table, int64_t position) const;
  // Makes `table` able to take a token at `position`, the first that it does not hold yet: appends
  // a block, or replaces one that others hold too by a copy (kv.2). Blocks come from `spare` first.
  // All or nothing.
  bool ReserveToWrite(BlockTable* table, int64_t position, BlockTable* spare,
                      std::vector<BlockId>* added, std::optional<CopyOnWrite>* copy);

  // A step will write positions [`from`, `to`) of `table`. REQUIRES: it holds blocks for them.
  void Fill(const BlockTable& table, int64_t from, int64_t to);

  // The prefix index. See PrefixCache.
  void EnableCaching(PrefixChain* chain, absl::string_view adapter, absl::string_view salt) const {
    cache_.Enable(chain, adapter, salt);
  }
  int64_t Match(PrefixChain* chain, std::span<const TokenId> tokens, int64_t most) const {
    return cache_.Match(chain, tokens, most);
  }
  void Hash(PrefixChain* chain, std::span<const TokenId> tokens) const {
    cache_.Hash(chain, tokens, static_cast<int64_t>(tokens.size()) / block_size_);
  }
  void BeginChain(PrefixChain* chain, int64_t shared) const { cache_.Begin(chain, shared); }
  // The first `committed` of `tokens` are in the blocks of `table`, written by committed steps.
  void Publish(const BlockTable& table, std::span<const TokenId> tokens, int64_t committed,
               PrefixChain* chain);
  // Free blocks among those that Adopt would take.
  int64_t NumFree(std::span<const PrefixRef> blocks) const;
  // Forgets what is cached. Blocks in use stay where they are; tables that began before never
  // publish again. Returns how many blocks were forgotten.
  int64_t FlushCache();

  // REQUIRES: steps are committed in order.
  void CommitStep(StepId step);
  // The workers forgot everything: no step in flight matters, step ids start again, and no block
  // has its content any more.
  void ForgetSteps();

  // `tables`: every table outside this class that may hold blocks. Ends the process unless each
  // block's count is the number of tables, deferred ones included, that hold it (kv.1).
  void CheckInvariants(const std::vector<const BlockTable*>& tables) const;
  // Ends the process when a write at `position` or later could reach a block that another table
  // holds or that is published (kv.2), but for the block that ReserveToWrite would copy.
  void CheckWritable(const BlockTable& table, int64_t position) const;

 private:
  struct Deferred {
    StepId last_step = 0;
    BlockTable table;
  };

  BlockId Lend();
  void Share(BlockId block);
  void Return(BlockId block);
  void ReleaseNow(Deferred* deferred);
  // All holders of the block have released it and wait for a step.
  bool OnlyDeferred(BlockId block) const {
    const int32_t deferred = deferred_holders_[block];
    return deferred > 0 && deferred == pool_.ref_count(block);
  }
  void BecomeDeferred(BlockId block) {
    ++num_deferred_;
    filled_slots_ -= filled_[block];
  }
  void LeaveDeferred(BlockId block) {
    --num_deferred_;
    filled_slots_ += filled_[block];
  }

  const int32_t block_size_;
  BlockPool pool_;
  PrefixCache cache_;
  int64_t num_cached_ = 0;
  uint64_t evictions_ = 0;
  uint64_t copies_on_write_ = 0;
  uint64_t saved_total_ = 0;
  StepId committed_ = 0;
  std::vector<Deferred> deferred_;         // in order of release
  std::vector<int32_t> deferred_holders_;  // [num_blocks + 1], by block
  int64_t num_deferred_ = 0;
  std::vector<int32_t> filled_;  // [num_blocks + 1], by block: its slots with a token; stale: free
  int64_t filled_slots_ = 0;     // over the blocks in held_slots
  std::vector<BlockId> displaced_;  // scratch
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_KV_KV_MANAGER_H_
