#include "scheduler/kv/prefix_cache.h"

#include <algorithm>

#include "common/check.h"
#include "common/kv_groups.h"

namespace octavo {

PrefixCache::PrefixCache(const PrefixCacheConfig& config, int64_t num_blocks, int32_t block_size,
                         const std::vector<int32_t>& windows)
    : config_(config),
      block_size_(block_size),
      windows_(windows),
      hasher_(config.digest_bits),
      index_(config.enabled ? num_blocks : 0, block_size, static_cast<int32_t>(windows.size())) {}

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
  chain->hit = 0;
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
  chain->hit = static_cast<int32_t>(LongestHit(found));
  return chain->hit;
}

int64_t PrefixCache::LongestHit(const std::vector<PrefixRef>& found) const {
  int64_t rows = static_cast<int64_t>(found.size());
  // A row that a group lacks ends every beginning that needs it, and those are all down to itself.
  for (size_t group = 1; group < windows_.size();) {
    int64_t row = rows - 1;
    const int64_t first = FirstBlockSeen(rows * block_size_, windows_[group], block_size_);
    while (row >= first && index_.BlockOf(found[static_cast<size_t>(row)],
                                          static_cast<int32_t>(group)) != kPaddingBlock) {
      --row;
    }
    if (row < first) {
      ++group;
    } else {
      rows = row;
      group = 1;
    }
  }
  return rows;
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
  const size_t groups = windows_.size();
  OCTAVO_CHECK(full <= static_cast<int64_t>(blocks.size() / groups), "full=", full,
               " blocks=", blocks.size());
  Hash(chain, tokens, full);
  // Its last row was found in another's blocks, and those were lent again since: the table's own
  // blocks take its place.
  if (chain->published > 0 && !index_.Alive(chain->tail)) {
    chain->published = 0;
    chain->tail = {};
  }
  for (; chain->published < full; ++chain->published) {
    const size_t next = static_cast<size_t>(chain->published);
    const std::span<const BlockId> row = blocks.subspan(next * groups, groups);
    if (row[0] == kPaddingBlock) {  // the first group's window has left it: nothing to build on
      chain->generation = 0;
      return;
    }
    chain->tail = index_.Publish(row, chain->digests[next], chain->root, chain->tail,
                                 Block(tokens, chain->published), displaced);
  }
}

void PrefixCache::Clear() {
  if (!config_.enabled) return;
  index_.Clear();
  ++generation_;
}

}  // namespace octavo
