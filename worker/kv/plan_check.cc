#include "worker/kv/plan_check.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace octavo {
namespace {

absl::Status CheckBlock(BlockId block, int64_t num_blocks, absl::string_view what) {
  if (block > kPaddingBlock && block <= num_blocks) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " block ", block, " is outside [1, ", num_blocks, "]"));
}

}  // namespace

absl::Status CheckCopies(const std::vector<BlockCopy>& copies, int64_t num_blocks) {
  if (copies.empty()) return absl::OkStatus();
  if (static_cast<int64_t>(copies.size()) > num_blocks)
    return absl::InvalidArgumentError(absl::StrCat(
        "plan copies ", copies.size(), " blocks, more than the ", num_blocks, " of the pool"));
  std::vector<BlockId> targets;
  targets.reserve(copies.size());
  for (const BlockCopy& copy : copies) {
    OCTAVO_RETURN_IF_ERROR(CheckBlock(copy.source, num_blocks, "copy source"));
    OCTAVO_RETURN_IF_ERROR(CheckBlock(copy.target, num_blocks, "copy target"));
    targets.push_back(copy.target);
  }
  std::sort(targets.begin(), targets.end());
  const auto twice = std::adjacent_find(targets.begin(), targets.end());
  if (twice != targets.end())
    return absl::InvalidArgumentError(
        absl::StrCat("block ", *twice, " is the target of two copies"));
  for (const BlockCopy& copy : copies) {
    if (std::binary_search(targets.begin(), targets.end(), copy.source))
      return absl::InvalidArgumentError(
          absl::StrCat("block ", copy.source, " is both source and target of copies (step.4)"));
  }
  return absl::OkStatus();
}

absl::Status CheckSwaps(const StepPlan& plan, int64_t num_blocks, int64_t num_swap_blocks) {
  if (plan.swap_outs.empty() && plan.swap_ins.empty()) return absl::OkStatus();
  std::vector<BlockId> devices, hosts;
  for (const std::vector<BlockSwap>* swaps : {&plan.swap_outs, &plan.swap_ins}) {
    for (const BlockSwap& swap : *swaps) {
      OCTAVO_RETURN_IF_ERROR(CheckBlock(swap.device, num_blocks, "swapped"));
      OCTAVO_RETURN_IF_ERROR(CheckBlock(swap.host, num_swap_blocks, "host"));
      devices.push_back(swap.device);
      hosts.push_back(swap.host);
    }
  }
  for (std::vector<BlockId>* ids : {&devices, &hosts}) {
    std::sort(ids->begin(), ids->end());
    const auto twice = std::adjacent_find(ids->begin(), ids->end());
    if (twice != ids->end())
      return absl::InvalidArgumentError(absl::StrCat(ids == &devices ? "" : "host ", "block ",
                                                     *twice, " is named by two swaps (swap.1)"));
  }
  for (const BlockCopy& copy : plan.copies) {
    if (std::binary_search(devices.begin(), devices.end(), copy.target))
      return absl::InvalidArgumentError(
          absl::StrCat("block ", copy.target, " is swapped and the target of a copy (step.4)"));
  }
  return absl::OkStatus();
}

absl::Status CheckSliceShape(const SeqSlice& slice, const MirrorLimits& limits) {
  const auto error = [&](auto... parts) {
    return absl::InvalidArgumentError(absl::StrCat("sequence ", slice.sequence, ": ", parts...));
  };
  if (slice.num_tokens < 1 || slice.num_tokens > limits.max_num_batched_tokens)
    return error("slice of ", slice.num_tokens, " tokens is outside [1, ",
                 limits.max_num_batched_tokens, "]");
  if (slice.context_length < 0 || slice.context_length > limits.max_model_len - slice.num_tokens)
    return error("context ", slice.context_length, " + ", slice.num_tokens,
                 " tokens is outside [1, ", limits.max_model_len, "], the model length");
  if (slice.feed_sampled) {
    if (slice.num_tokens != 1 || !slice.tokens.empty())
      return error("feed_sampled takes 1 token and no ids, got ", slice.num_tokens, " and ",
                   slice.tokens.size());
  } else if (static_cast<int64_t>(slice.tokens.size()) != slice.num_tokens) {
    return error("slice of ", slice.num_tokens, " tokens carries ", slice.tokens.size(), " ids");
  }
  for (const TokenId token : slice.tokens) {
    if (token < 0 || token >= limits.vocab_size)
      return error("token id ", token, " is outside [0, ", limits.vocab_size, ")");
  }
  for (size_t i = 0; i < slice.new_blocks.size(); ++i) {
    const BlockId block = slice.new_blocks[i];
    // Tables have whole rows, so an entry's place says its group.
    if (block == kPaddingBlock && limits.group_windows[i % limits.group_windows.size()] > 0)
      continue;
    if (absl::Status status = CheckBlock(block, limits.num_blocks, "new"); !status.ok())
      return error(status.message());
  }
  for (const BlockReplacement& replaced : slice.replaced) {
    if (absl::Status status = CheckBlock(replaced.block, limits.num_blocks, "replacing");
        !status.ok())
      return error(status.message());
  }
  if (!slice.forks.empty() && !slice.sample) return error("forks without sampling");
  if (slice.score) {
    const ScoreRows& score = *slice.score;
    const auto rows = static_cast<int64_t>(score.targets.size());
    if (score.first_row < 0 || rows < 1 || score.first_row > slice.num_tokens - rows)
      return error("scores ", rows, " rows from row ", score.first_row, " on; the slice has ",
                   slice.num_tokens);
    if (slice.feed_sampled) return error("scores a token after what it sampled");
    if (score.num_top < 0 || score.num_top > kMaxTopLogprobs)
      return error("num_top of scores is ", score.num_top, "; it must be in [0, ", kMaxTopLogprobs,
                   "]");
    for (const TokenId token : score.targets) {
      if (token < 0 || token >= limits.vocab_size)
        return error("scored token ", token, " is outside [0, ", limits.vocab_size, ")");
    }
  }
  if (slice.start) {
    if (slice.feed_sampled) return error("a starting sequence has sampled nothing to feed");
    if (absl::Status status = Validate(slice.start->sampling, kMaxStepLogprobs); !status.ok())
      return error(status.message());
  }
  return absl::OkStatus();
}

}  // namespace octavo
