#include "tests/fakes/shadow_cache.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace octavo {

ShadowCache::ShadowCache(int64_t num_blocks, int32_t block_size, std::vector<int32_t> windows,
                         int64_t num_swap_blocks)
    : num_blocks_(num_blocks),
      block_size_(block_size),
      num_swap_blocks_(num_swap_blocks),
      windows_(std::move(windows)),
      slots_(static_cast<size_t>((num_blocks + 1) * block_size)),
      host_(static_cast<size_t>((num_swap_blocks + 1) * block_size)) {}

absl::Status ShadowCache::Locate(const std::vector<BlockId>& table, int32_t position, int32_t group,
                                 size_t* index) const {
  const size_t entry = static_cast<size_t>(position / block_size_ * num_groups() + group);
  if (entry >= table.size()) {
    return absl::FailedPreconditionError(absl::StrCat("position ", position, " in a table of ",
                                                      table.size(), " blocks of ", block_size_));
  }
  const BlockId block = table[entry];
  if (block <= kPaddingBlock || block > num_blocks_) {
    return absl::FailedPreconditionError(absl::StrCat("block ", block, " of a pool of ",
                                                      num_blocks_, " at position ", position,
                                                      " of group ", group));
  }
  *index = static_cast<size_t>(block) * block_size_ + position % block_size_;
  return absl::OkStatus();
}

absl::Status ShadowCache::Write(const std::vector<BlockId>& table, const ShadowSlot& slot) {
  for (int32_t group = 0; group < num_groups(); ++group) {
    size_t index = 0;
    OCTAVO_RETURN_IF_ERROR(Locate(table, slot.position, group, &index));
    slots_[index] = slot;
    slots_[index].group = group;
  }
  return absl::OkStatus();
}

absl::Status ShadowCache::Read(const std::vector<BlockId>& table, int32_t position,
                               ShadowSlot* slot, int32_t group) const {
  size_t index = 0;
  OCTAVO_RETURN_IF_ERROR(Locate(table, position, group, &index));
  *slot = slots_[index];
  return absl::OkStatus();
}

absl::Status ShadowCache::CheckPrefix(const std::vector<BlockId>& table,
                                      const std::vector<TokenId>& tokens, int64_t first) const {
  ChainHash chain = kEmptyChain;
  for (size_t i = 0; i < tokens.size(); ++i) {
    chain = Extend(chain, tokens[i]);
    for (int32_t group = 0; group < num_groups(); ++group) {
      if (static_cast<int64_t>(i) / block_size_ < FirstRow(first, group)) continue;
      ShadowSlot slot;
      OCTAVO_RETURN_IF_ERROR(Read(table, static_cast<int32_t>(i), &slot, group));
      if (slot.position == static_cast<int32_t>(i) && slot.token == tokens[i] &&
          slot.chain == chain && slot.group == group) {
        continue;
      }
      return absl::DataLossError(
          absl::StrCat("position ", i, " of group ", group, " needs token ", tokens[i], "; block ",
                       table[i / block_size_ * windows_.size() + static_cast<size_t>(group)],
                       " holds token ", slot.token, " of sequence ", slot.sequence, " position ",
                       slot.position, " group ", slot.group));
    }
  }
  return absl::OkStatus();
}

void ShadowCache::Wipe() {
  std::fill(slots_.begin(), slots_.end(), ShadowSlot());
  std::fill(host_.begin(), host_.end(), ShadowSlot());
}

absl::Status ShadowCache::CheckSwap(const BlockSwap& swap) const {
  if (swap.device > kPaddingBlock && swap.device <= num_blocks_ && swap.host > kPaddingBlock &&
      swap.host <= num_swap_blocks_) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat("swap of block ", swap.device, " of ",
                                                    num_blocks_, " and host block ", swap.host,
                                                    " of ", num_swap_blocks_));
}

absl::Status ShadowCache::SwapOut(const BlockSwap& swap) {
  OCTAVO_RETURN_IF_ERROR(CheckSwap(swap));
  std::copy_n(slots_.begin() + static_cast<int64_t>(swap.device) * block_size_, block_size_,
              host_.begin() + static_cast<int64_t>(swap.host) * block_size_);
  return absl::OkStatus();
}

absl::Status ShadowCache::SwapIn(const BlockSwap& swap) {
  OCTAVO_RETURN_IF_ERROR(CheckSwap(swap));
  std::copy_n(host_.begin() + static_cast<int64_t>(swap.host) * block_size_, block_size_,
              slots_.begin() + static_cast<int64_t>(swap.device) * block_size_);
  return absl::OkStatus();
}

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
