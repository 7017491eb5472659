#include "scheduler/kv/swap_pool.h"

#include <optional>

#include "common/check.h"

namespace octavo {

BlockId SwapPool::Take() {
  const std::optional<BlockId> host = pool_.Lend();
  OCTAVO_CHECK(host.has_value(), "no host block is free");
  return *host;
}

void SwapPool::Release(BlockId host, StepId last_step) {
  if (last_step > committed_) {
    deferred_.push_back({last_step, host});
  } else {
    pool_.Release(host, /*worthless=*/true);
  }
}

void SwapPool::CommitStep(StepId step) {
  committed_ = step;
  std::erase_if(deferred_, [&](const Deferred& deferred) {
    if (deferred.last_step > step) return false;
    pool_.Release(deferred.host, /*worthless=*/true);
    return true;
  });
}

void SwapPool::ForgetSteps() {
  for (const Deferred& deferred : deferred_) pool_.Release(deferred.host, /*worthless=*/true);
  deferred_.clear();
  committed_ = 0;
}

void SwapPool::CheckInvariants(const std::vector<BlockId>& held) const {
  pool_.CheckInvariants();
  std::vector<int32_t> holders(static_cast<size_t>(num_blocks()) + 1, 0);
  for (const BlockId host : held) ++holders.at(static_cast<size_t>(host));
  for (const Deferred& deferred : deferred_) {
    OCTAVO_CHECK(deferred.last_step > committed_, "host block ", deferred.host, " waits for step ",
                 deferred.last_step);
    ++holders.at(static_cast<size_t>(deferred.host));
  }
  for (BlockId host = 1; host <= num_blocks(); ++host) {
    OCTAVO_CHECK(holders[static_cast<size_t>(host)] == pool_.ref_count(host), "host block=", host,
                 " holders=", holders[static_cast<size_t>(host)]);
  }
}

}  // namespace octavo
