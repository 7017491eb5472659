// Lends blocks to tables and takes them back: the one place where block counts change.
#ifndef OCTAVO_SCHEDULER_KV_KV_MANAGER_H_
#define OCTAVO_SCHEDULER_KV_KV_MANAGER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/ids.h"
#include "common/kv_groups.h"
#include "common/step.h"
#include "scheduler/kv/block_pool.h"
#include "scheduler/kv/block_table.h"
#include "scheduler/kv/prefix_cache.h"
#include "scheduler/kv/retained_table.h"

namespace octavo {

// A shared block is about to be written: the table's entry `index` has become `copy.target`. The
// padding block as the source: there was none.
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
//
// Layers form groups (kv.7), and each row of a table has a block for each. Those with a window hold
// only what the window sees: a table lends their blocks as its tokens are computed
// (ReserveWindows), and gives them back as committed tokens leave the window (Slide).
class KvManager {
 public:
  KvManager(int64_t num_blocks, int32_t block_size) : KvManager(num_blocks, block_size, {}) {}
  // `windows`: of each group, in tokens, those that see all (0) first.
  KvManager(int64_t num_blocks, int32_t block_size, const PrefixCacheConfig& cache,
            const std::vector<int32_t>& windows = {0});

  int32_t block_size() const { return block_size_; }  // tokens
  int64_t num_blocks() const { return pool_.num_blocks(); }
  // Blocks that no table holds, cached ones included, and those of them that none was promised.
  int64_t num_unheld() const { return pool_.num_free(); }
  int64_t num_free() const { return num_unheld() - promised_; }
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
  int64_t held_slots() const { return (num_blocks() - num_unheld() - num_deferred_) * block_size_; }
  int64_t filled_slots() const { return filled_slots_; }

  int64_t num_groups() const { return num_groups_; }
  int64_t num_keeping() const { return num_keeping_; }  // groups that see all
  int64_t num_windowed() const { return num_groups_ - num_keeping_; }
  // Rows of a table: the blocks of one group that sees all.
  int64_t BlocksFor(int64_t tokens) const { return (tokens + block_size_ - 1) / block_size_; }
  int64_t NumRows(const BlockTable& table) const { return table.num_blocks() / num_groups_; }
  // Blocks that Reserve needs for `tokens` tokens; 0 when `table` holds enough.
  int64_t BlocksMissing(const BlockTable& table, int64_t tokens) const;
  bool CanReserve(const BlockTable& table, int64_t tokens) const {
    return BlocksMissing(table, tokens) <= num_free();
  }
  // Blocks of `table` that no other table holds.
  int64_t NumExclusive(const BlockTable& table) const;
  int32_t ref_count(BlockId block) const { return pool_.ref_count(block); }
  bool Published(BlockId block) const { return cache_.Contains(block); }  // in the prefix index
  // Memory for the entries of `max_tokens` tokens, so that later reservations allocate nothing.
  void Prepare(BlockTable* table, int64_t max_tokens) const {
    table->blocks_.reserve(static_cast<size_t>(BlocksFor(max_tokens) * num_groups_));
  }
  // Makes `table` have the rows of `tokens` tokens, with the blocks of groups that see all, and
  // appends the entries it gained to `added`. All or nothing: false when too few are free (kv.4).
  bool Reserve(BlockTable* table, int64_t tokens, std::vector<BlockId>* added);
  // Promises `table` what it lacks for `tokens` tokens: nobody else gets it, and until the table
  // takes it, found blocks among it stay in the index. All or nothing. Not with windows.
  bool Promise(BlockTable* table, int64_t tokens);
  // Reserve, out of what was promised. REQUIRES: that is enough.
  void TakePromised(BlockTable* table, int64_t tokens, std::vector<BlockId>* added);
  // Contiguous allocation: an empty `table` gets `tokens` tokens' worth of blocks with ids in a
  // row, first fit from the lowest. False when no run of free blocks is that long, however many
  // there are. Not together with the prefix index or with windows.
  bool CanReserveRun(int64_t tokens) const { return pool_.FindRun(BlocksFor(tokens)).has_value(); }
  bool ReserveRun(BlockTable* table, int64_t tokens);
  // `blocks` more blocks, whatever they will be for. All or nothing.
  bool ReserveSpare(BlockTable* spare, int64_t blocks);
  // Empties `table`; what it was promised is free at once. Its blocks return tail first (kv.5),
  // once `last_step`, the last step that named them, is committed; 0: no step did. When its
  // sequence has `ended`, blocks that the index does not name are of no use to anybody any more and
  // are lent before those that may be.
  void Release(BlockTable* table, StepId last_step, bool ended = false);

  // Windows. Entries that windowed groups lack to compute positions [`from`, `to`). REQUIRES: the
  // table has their rows.
  int64_t WindowsMissing(const BlockTable& table, int64_t from, int64_t to) const;
  // Lends them, from `spare` first, and appends them to `lent`. All or nothing.
  bool ReserveWindows(BlockTable* table, int64_t from, int64_t to, BlockTable* spare,
                      std::vector<BlockReplacement>* lent);
  // The first `committed` tokens are, and nothing before their windows will be read again: gives
  // those blocks back, at once, since steps in flight do not read them either. They go to `keep`,
  // when it is given and nobody else holds them, so that who put blocks aside keeps as many.
  void Slide(BlockTable* table, int64_t committed, BlockTable* keep);
  // Entries that Slide would give up.
  int64_t BlocksSliding(const BlockTable& table, int64_t committed) const;
  // `child` has the rows of `parent` but nothing in its windows: it gets what they see of the first
  // `tokens` tokens. REQUIRES: `parent` still has that.
  void ShareWindows(const BlockTable& parent, int64_t tokens, BlockTable* child);

  // Sharing. A table that begins with shared blocks must never write into them: full ones are not
  // written any more, and the partly filled last one is copied by ReserveToWrite.
  //
  // An empty `table` begins with `rows`, found in the index.
  void Adopt(BlockTable* table, std::span<const PrefixRef> rows);
  // An empty `child` begins with the first `rows` of `parent`.
  void Fork(BlockTable* parent, int64_t rows, BlockTable* child);
  // The same, before their tokens are computed: without windows (ShareWindows).
  void ForkAhead(const BlockTable& parent, int64_t rows, BlockTable* child);
  // Blocks that ReserveToWrite needs.
  int64_t BlocksToWrite(const BlockTable& table, int64_t position) const {
    return position < table.writable_ ? 0 : LookToWrite(table, position);
  }
  // Makes `table` able to take a token at `position`, the first that it does not hold yet: appends
  // a row, or replaces blocks that others hold too by copies (kv.2). Blocks come from `spare`
  // first. All or nothing.
  bool ReserveToWrite(BlockTable* table, int64_t position, BlockTable* spare,
                      std::vector<BlockId>* added, std::vector<CopyOnWrite>* copies);

  // A step will write positions [`from`, `to`) of `table`. REQUIRES: it holds blocks for them.
  void Fill(const BlockTable& table, int64_t from, int64_t to);

  // Coming back. What a table holds can be found again after its release, for as long as the blocks
  // are not lent again; the prefix index has no part in this. Only without windows: a table that
  // lost its tail would lack what they see of what is left.
  bool retains() const { return num_groups_ == 1 && num_keeping_ == 1; }
  // The blocks of `table` that hold its first `tokens` tokens. REQUIRES: retains().
  RetainedTable Retain(const BlockTable& table, int32_t tokens) const;
  bool Intact(const RetainedBlock& block) const {
    return pool_.lendings(block.block) == block.lending;
  }
  bool IsFree(BlockId block) const { return pool_.ref_count(block) == 0; }
  // Appends `blocks` to `table`, which then holds `tokens` tokens: intact ones themselves, if
  // `reuse`, and new ones for the others, into which `swap_ins` copies their host blocks. REQUIRES:
  // those have one; enough are free.
  void Resume(BlockTable* table, std::span<const RetainedBlock> blocks, int64_t tokens, bool reuse,
              std::vector<BlockSwap>* swap_ins);

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
  // Its table began before the last FlushCache.
  bool Outdated(const PrefixChain& chain) const { return cache_.Outdated(chain); }
  // Free blocks among those that Adopt would take for `rows`: of groups that see all in the rows
  // from `first` on, and of the others.
  int64_t NumFree(std::span<const PrefixRef> rows, int64_t first) const;
  int64_t NumFreeInWindows(std::span<const PrefixRef> rows) const;
  // Forgets what is cached. Blocks in use stay where they are; tables that began before never
  // publish again. Returns how many blocks were forgotten.
  int64_t FlushCache();

  // REQUIRES: steps are committed in order.
  void CommitStep(StepId step);
  StepId committed() const { return committed_; }
  // The workers forgot everything: no step in flight matters, step ids start again, and no block
  // has its content any more.
  void ForgetSteps();

  // `tables`: every table outside this class that may hold blocks. Ends the process unless each
  // block's count is the number of tables, deferred ones included, that hold it (kv.1).
  void CheckInvariants(const std::vector<const BlockTable*>& tables) const;
  // Ends the process when a write at `position` or later could reach a block that another table
  // holds or that is published (kv.2), but for the block that ReserveToWrite would copy.
  void CheckWritable(const BlockTable& table, int64_t position) const;
  // Ends the process unless windowed groups hold what windows see of the committed and what the
  // first `computed` tokens were written to, and nothing that windows have left.
  void CheckWindows(const BlockTable& table, int64_t computed) const;

 private:
  struct Deferred {
    StepId last_step = 0;
    bool ended = false;  // its sequence
    BlockTable table;
  };

  int64_t LookToWrite(const BlockTable& table, int64_t position) const;
  BlockId Lend();
  BlockId TakeFrom(BlockTable* spare);
  // Blocks of the index that lost their row.
  void Forget(const std::vector<BlockId>& displaced);
  // The first row that a window sees of what follows `tokens` tokens.
  int64_t FirstRow(int64_t tokens, int32_t window) const {
    return FirstBlockSeen(tokens, window, block_size_);
  }
  size_t At(int64_t row, int64_t group) const {
    return static_cast<size_t>(row * num_groups_ + group);
  }
  // The block is found in the index, or was given up by who takes it again.
  void Share(BlockId block);
  void Return(BlockId block, bool ended = false);
  void ReleaseNow(Deferred* deferred);
  // All holders of the block have released it and wait for a step.
  bool OnlyDeferred(BlockId block) const {
    const int32_t deferred = deferred_holders_[block];
    return deferred > 0 && deferred == pool_.ref_count(block);
  }
  // Of a block in a table: some other table has it, and not only until its steps are committed.
  // Such tables, of choices that ended before they wrote, never write; a copy out of the block
  // would outlive them.
  bool HeldByOthers(BlockId block) const {
    return pool_.ref_count(block) - deferred_holders_[block] > 1;
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
  const std::vector<int32_t> windows_;  // by group
  const int64_t num_groups_;
  const int64_t num_keeping_;
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
  int64_t promised_ = 0;         // to all tables
  std::vector<int32_t> filled_;  // [num_blocks + 1], by block: its slots with a token; stale: free
  int64_t filled_slots_ = 0;     // over the blocks in held_slots
  std::vector<BlockId> displaced_;  // scratch
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_KV_KV_MANAGER_H_
