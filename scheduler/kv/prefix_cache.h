// What sequences know about their prefixes, and the index that they share.
#ifndef OCTAVO_SCHEDULER_KV_PREFIX_CACHE_H_
#define OCTAVO_SCHEDULER_KV_PREFIX_CACHE_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/ids.h"
#include "scheduler/kv/block_hash.h"
#include "scheduler/kv/prefix_index.h"

namespace octavo {

struct PrefixCacheConfig {
  bool enabled = false;
  std::string key;             // secret of this process, or fixed for reproducible digests
  std::string model_revision;  // digest of the weights
  std::string kv_dtype;
  int32_t digest_bits = 128;  // fewer only in tests: collisions cost hits
};

// One sequence's way through the index. A default one takes no part.
struct PrefixChain {
  bool enabled = false;
  BlockDigest root;
  std::vector<BlockDigest> digests;  // of its first full blocks; tokens never change, so these stay
  std::vector<PrefixRef> found;      // rows in the index, by the last Match
  int32_t hit = 0;                   // how many of them a table can begin with
  // Of the present table: how many of its first blocks are published (by it or another), the last
  // of those, and the generation of the index in which the table began.
  int32_t published = 0;
  PrefixRef tail;
  uint64_t generation = 0;
};

class PrefixCache {
 public:
  // `windows`: of each group of layers, in tokens; 0: sees all.
  PrefixCache(const PrefixCacheConfig& config, int64_t num_blocks, int32_t block_size,
              const std::vector<int32_t>& windows);

  bool enabled() const { return config_.enabled; }
  const PrefixIndex& index() const { return index_; }

  // Lets a sequence take part, when the cache is on.
  void Enable(PrefixChain* chain, absl::string_view adapter, absl::string_view salt) const;
  // Hashes the full blocks of `tokens` that are not hashed yet, at most `blocks` in all.
  void Hash(PrefixChain* chain, std::span<const TokenId> tokens, int64_t blocks) const;
  // With how many of the first full blocks of `tokens` a table can begin, at most `most`: each
  // group must have what its window sees at their end (kv.7). chain->found has them. Costs little
  // when asked again.
  int64_t Match(PrefixChain* chain, std::span<const TokenId> tokens, int64_t most) const;
  // A table begins with `shared` blocks found by the last Match.
  void Begin(PrefixChain* chain, int64_t shared) const;
  // The first `full` rows of a table hold committed `tokens`: enters those that are new.
  // `displaced` gets the blocks that left the index for them.
  void Publish(PrefixChain* chain, std::span<const BlockId> blocks, std::span<const TokenId> tokens,
               int64_t full, std::vector<BlockId>* displaced);

  void ExpectRemoval(BlockId block) const {
    if (config_.enabled) index_.ExpectRemoval(block);
  }
  bool Contains(BlockId block) const { return config_.enabled && index_.Contains(block); }
  void Remove(BlockId block, std::vector<BlockId>* displaced) { index_.Remove(block, displaced); }
  // Its table began before the last Clear: what it holds must not be found again.
  bool Outdated(const PrefixChain& chain) const {
    return chain.enabled && chain.generation != generation_;
  }
  // Forgets all, and what running tables compute on top of it is not published either.
  void Clear();

 private:
  std::span<const TokenId> Block(std::span<const TokenId> tokens, int64_t block) const {
    return tokens.subspan(static_cast<size_t>(block * block_size_),
                          static_cast<size_t>(block_size_));
  }

  // The longest beginning of `found` that has every block that is needed.
  int64_t LongestHit(const std::vector<PrefixRef>& found) const;

  const PrefixCacheConfig config_;
  const int32_t block_size_;
  const std::vector<int32_t> windows_;  // by group
  BlockHasher hasher_;
  PrefixIndex index_;
  uint64_t generation_ = 1;
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_KV_PREFIX_CACHE_H_
