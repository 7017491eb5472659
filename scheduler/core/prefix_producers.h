// Which running sequences are about to compute which full blocks, so that identical prefixes that
// arrive together are computed once.
#ifndef OCTAVO_SCHEDULER_CORE_PREFIX_PRODUCERS_H_
#define OCTAVO_SCHEDULER_CORE_PREFIX_PRODUCERS_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "scheduler/core/request_state.h"
#include "scheduler/kv/block_hash.h"

namespace octavo {

// Hints only: a digest that is not confirmed by tokens, a producer that may never get there. Who
// waits for one asks again in every step, and is on its own as soon as the producer is gone.
class PrefixProducers {
 public:
  explicit PrefixProducers(int32_t block_size) : block_size_(block_size) {}

  // `sequence` will compute its full blocks of known tokens from `first` on. Those that another
  // one produces already stay with that one.
  void Add(SequenceState* sequence, int64_t first);
  // The first `tokens` tokens of `sequence` are computed and committed.
  void Commit(SequenceState* sequence, int32_t tokens);
  // It ended or lost its blocks.
  void Remove(SequenceState* sequence);
  // Everybody's: what they compute will not be published.
  void Clear();

  // nullptr when nobody is known to.
  const SequenceState* Find(const BlockDigest& digest) const;

  // Ends the process unless every entry is one of a running sequence.
  void CheckInvariants() const;

 private:
  void RemoveUpTo(SequenceState* sequence, int32_t end);

  const int32_t block_size_;
  absl::flat_hash_map<BlockDigest, SequenceState*> producers_;
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_CORE_PREFIX_PRODUCERS_H_
