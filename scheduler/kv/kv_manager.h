// Lends blocks to tables and takes them back: the one place where block counts change.
#ifndef OCTAVO_SCHEDULER_KV_KV_MANAGER_H_
#define OCTAVO_SCHEDULER_KV_KV_MANAGER_H_

#include <cstdint>
#include <vector>

#include "common/ids.h"
#include "scheduler/kv/block_pool.h"
#include "scheduler/kv/block_table.h"

namespace octavo {

// Knows tables and steps, no requests. Single-threaded and deterministic.
//
// Blocks come back in two ways: at once, when every step that named the table is committed, or when
// the last such step is (life.1). In between they are `deferred`: neither free nor of use.
class KvManager {
 public:
  KvManager(int64_t num_blocks, int32_t block_size);

  int32_t block_size() const { return block_size_; }  // tokens
  int64_t num_blocks() const { return pool_.num_blocks(); }
  int64_t num_free() const { return pool_.num_free(); }
  // Blocks that turn free when the steps in flight are committed.
  int64_t num_deferred() const { return num_deferred_; }

  int64_t BlocksFor(int64_t tokens) const { return (tokens + block_size_ - 1) / block_size_; }
  // Blocks that `table` lacks to hold `tokens` tokens; 0 when it holds enough.
  int64_t BlocksMissing(const BlockTable& table, int64_t tokens) const;
  bool CanReserve(const BlockTable& table, int64_t tokens) const {
    return BlocksMissing(table, tokens) <= num_free();
  }
  // Memory for the entries of `max_tokens` tokens, so that later reservations allocate nothing.
  void Prepare(BlockTable* table, int64_t max_tokens) const {
    table->blocks_.reserve(static_cast<size_t>(BlocksFor(max_tokens)));
  }
  // Makes `table` hold `tokens` tokens and appends the blocks it gained to `added`. All or nothing:
  // false when too few are free (kv.4).
  bool Reserve(BlockTable* table, int64_t tokens, std::vector<BlockId>* added);
  // Empties `table`. Its blocks return tail first (kv.5), once `last_step`, the last step that
  // named them, is committed; 0: no step did.
  void Release(BlockTable* table, StepId last_step);

  // REQUIRES: steps are committed in order.
  void CommitStep(StepId step);
  // The workers forgot everything: no step in flight matters, step ids start again.
  void ForgetSteps();

  // `tables`: every table outside this class that may hold blocks. Ends the process unless each
  // block's count is the number of tables, deferred ones included, that hold it (kv.1, kv.2).
  void CheckInvariants(const std::vector<const BlockTable*>& tables) const;

 private:
  struct Deferred {
    StepId last_step = 0;
    int64_t counted = 0;  // its share of num_deferred_
    BlockTable table;
  };

  void ReleaseNow(BlockTable* table);

  const int32_t block_size_;
  BlockPool pool_;
  StepId committed_ = 0;
  std::vector<Deferred> deferred_;  // in order of release
  int64_t num_deferred_ = 0;
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_KV_KV_MANAGER_H_
