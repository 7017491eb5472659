#include "scheduler/kv/prefix_cache.h"

#include <algorithm>

#include "common/check.h"

namespace octavo {

PrefixCache::PrefixCache(const PrefixCacheConfig& config, int64_t num_blocks, int32_t block_size)
    : config_(config),
      block_size_(block_size),
      hasher_(config.digest_bits),
      index_(config.enabled ? num_blocks : 0, block_size) {}

void PrefixCache::Enable(PrefixChain* chain, absl::string_view adapter,
                         absl::string_view salt) const {
  if (!config_.enabled) return;
  chain->enabled = true;
  chain->root = hasher_.Root(config_.key, {.model_revision = config_.model_revision,
                                           .adapter = adapter,
                                           .kv_dtype = config_.kv_dtype,
                                           .block_size = block_size_,
                                           .salt = salt});
}

void PrefixCache::Hash(PrefixChain* chain, std::span<const TokenId> tokens, int64_t blocks) const {
  if (!chain->enabled) return;
  std::vector<BlockDigest>& digests = chain->digests;
  while (static_cast<int64_t>(digests.size()) < blocks) {
    const int64_t next = static_cast<int64_t>(digests.size());
    digests.push_back(
        hasher_.Extend(next == 0 ? chain->root : digests.back(), Block(tokens, next)));
  }
}

int64_t PrefixCache::Match(PrefixChain* chain, std::span<const TokenId> tokens,
                           int64_t most) const {
  if (!chain->enabled) return 0;
  Hash(chain, tokens, most);
  std::vector<PrefixRef>& found = chain->found;
  // Entries of the last call are good as long as each is the same publication as then.
  const auto dead = std::find_if(found.begin(), found.end(),
                                 [this](PrefixRef ref) { return !index_.Alive(ref); });
  found.resize(
      std::min<size_t>(static_cast<size_t>(dead - found.begin()), static_cast<size_t>(most)));
  while (static_cast<int64_t>(found.size()) < most) {
    const size_t next = found.size();
    const PrefixRef ref =
        index_.Find(chain->digests[next], chain->root, next == 0 ? PrefixRef{} : found.back(),
                    Block(tokens, static_cast<int64_t>(next)));
    if (ref.serial == 0) break;
    found.push_back(ref);
  }
  return static_cast<int64_t>(found.size());
}

void PrefixCache::Begin(PrefixChain* chain, int64_t shared) const {
  chain->published = static_cast<int32_t>(shared);
  chain->tail = shared == 0 ? PrefixRef{} : chain->found[static_cast<size_t>(shared) - 1];
  chain->generation = generation_;
}

void PrefixCache::Publish(PrefixChain* chain, std::span<const BlockId> blocks,
                          std::span<const TokenId> tokens, int64_t full,
                          std::vector<BlockId>* displaced) {
  if (!chain->enabled || chain->generation != generation_) return;
  OCTAVO_CHECK(full <= static_cast<int64_t>(blocks.size()), "full=", full,
               " blocks=", blocks.size());
  Hash(chain, tokens, full);
  // Its last block was found in another's block, and that was lent again since: the table's own
  // blocks take its place.
  if (chain->published > 0 && !index_.Alive(chain->tail)) {
    chain->published = 0;
    chain->tail = {};
  }
  for (; chain->published < full; ++chain->published) {
    const size_t next = static_cast<size_t>(chain->published);
    BlockId removed = kPaddingBlock;
    chain->tail = index_.Publish(blocks[next], chain->digests[next], chain->root, chain->tail,
                                 Block(tokens, chain->published), &removed);
    if (removed != kPaddingBlock) displaced->push_back(removed);
  }
}

void PrefixCache::Clear() {
  if (!config_.enabled) return;
  index_.Clear();
  ++generation_;
}

}  // namespace octavo
