#include "tests/fakes/shadow_cache.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace octavo {

ShadowCache::ShadowCache(int64_t num_blocks, int32_t block_size)
    : num_blocks_(num_blocks),
      block_size_(block_size),
      slots_(static_cast<size_t>((num_blocks + 1) * block_size)) {}

absl::Status ShadowCache::Locate(const std::vector<BlockId>& table, int32_t position,
                                 size_t* index) const {
  const size_t entry = static_cast<size_t>(position / block_size_);
  if (entry >= table.size()) {
    return absl::FailedPreconditionError(absl::StrCat("position ", position, " in a table of ",
                                                      table.size(), " blocks of ", block_size_));
  }
  const BlockId block = table[entry];
  if (block <= kPaddingBlock || block > num_blocks_) {
    return absl::FailedPreconditionError(
        absl::StrCat("block ", block, " of a pool of ", num_blocks_));
  }
  *index = static_cast<size_t>(block) * block_size_ + position % block_size_;
  return absl::OkStatus();
}

absl::Status ShadowCache::Write(const std::vector<BlockId>& table, const ShadowSlot& slot) {
  size_t index = 0;
  OCTAVO_RETURN_IF_ERROR(Locate(table, slot.position, &index));
  slots_[index] = slot;
  return absl::OkStatus();
}

absl::Status ShadowCache::Read(const std::vector<BlockId>& table, int32_t position,
                               ShadowSlot* slot) const {
  size_t index = 0;
  OCTAVO_RETURN_IF_ERROR(Locate(table, position, &index));
  *slot = slots_[index];
  return absl::OkStatus();
}

absl::Status ShadowCache::CheckPrefix(const std::vector<BlockId>& table,
                                      const std::vector<TokenId>& tokens) const {
  ChainHash chain = kEmptyChain;
  for (size_t i = 0; i < tokens.size(); ++i) {
    chain = Extend(chain, tokens[i]);
    ShadowSlot slot;
    OCTAVO_RETURN_IF_ERROR(Read(table, static_cast<int32_t>(i), &slot));
    if (slot.position != static_cast<int32_t>(i) || slot.token != tokens[i] ||
        slot.chain != chain) {
      return absl::DataLossError(absl::StrCat("position ", i, " needs token ", tokens[i],
                                              "; block ", table[i / block_size_], " holds token ",
                                              slot.token, " of sequence ", slot.sequence,
                                              " position ", slot.position));
    }
  }
  return absl::OkStatus();
}

void ShadowCache::Wipe() { std::fill(slots_.begin(), slots_.end(), ShadowSlot()); }

absl::Status ShadowCache::Copy(BlockId source, BlockId target) {
  for (const BlockId block : {source, target}) {
    if (block <= kPaddingBlock || block > num_blocks_) {
      return absl::FailedPreconditionError(
          absl::StrCat("copy of block ", block, " in a pool of ", num_blocks_));
    }
  }
  std::copy_n(slots_.begin() + static_cast<int64_t>(source) * block_size_, block_size_,
              slots_.begin() + static_cast<int64_t>(target) * block_size_);
  return absl::OkStatus();
}

}  // namespace octavo
