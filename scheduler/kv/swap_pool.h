// Which host blocks hold, or are about to hold, the content of swapped-out blocks.
#ifndef OCTAVO_SCHEDULER_KV_SWAP_POOL_H_
#define OCTAVO_SCHEDULER_KV_SWAP_POOL_H_

#include <cstdint>
#include <span>
#include <vector>

#include "common/ids.h"
#include "scheduler/kv/block_pool.h"

namespace octavo {

// The host pool of every worker, as one. Single-threaded and deterministic. A host block that a
// step names is not lent again before that step is committed (swap.1). The one released last is
// lent first: workers touch no more host memory than was ever in use at once.
class SwapPool {
 public:
  explicit SwapPool(int64_t num_blocks) : pool_(num_blocks) {}

  int64_t num_blocks() const { return pool_.num_blocks(); }
  int64_t num_free() const { return pool_.num_free(); }
  int64_t num_used() const { return num_blocks() - num_free(); }

  // REQUIRES: one is free.
  BlockId Take();
  // `host` may be lent again once `last_step`, the last step that names it, is committed; 0: no
  // step in flight does.
  void Release(BlockId host, StepId last_step);

  // REQUIRES: steps are committed in order.
  void CommitStep(StepId step);
  // No step in flight matters any more, and step ids start again.
  void ForgetSteps();

  // `held`: the host blocks that somebody will release. Ends the process unless they, and those
  // that wait for a step, are exactly the ones lent.
  void CheckInvariants(const std::vector<BlockId>& held) const;

 private:
  struct Deferred {
    StepId last_step = 0;
    BlockId host = kPaddingBlock;
  };

  BlockPool pool_;
  StepId committed_ = 0;
  std::vector<Deferred> deferred_;  // in order of release
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_KV_SWAP_POOL_H_
