#include "scheduler/core/scheduler_config.h"

#include <cmath>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/kv_groups.h"
#include "common/status_macros.h"

namespace octavo {
namespace {

absl::Status TooSmall(absl::string_view field, int64_t value, int64_t limit) {
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", value, "; it must be at least ", limit));
}

absl::Status ValidateGroups(const SchedulerConfig& config) {
  const std::vector<int32_t>& windows = config.group_windows;
  if (windows.empty()) return TooSmall("the number of group_windows", 0, 1);
  for (size_t i = 0; i < windows.size(); ++i) {
    if (windows[i] < 0) return TooSmall("a window of group_windows", windows[i], 0);
    if (i == 0 || windows[i - 1] == 0) continue;
    if (windows[i] == 0 || windows[i] > windows[i - 1]) {
      return absl::InvalidArgumentError(absl::StrCat("group_windows has ", windows[i], " after ",
                                                     windows[i - 1],
                                                     "; groups that see more come first"));
    }
  }
  return absl::OkStatus();
}

// Tokens of the longest sequence that the blocks hold: groups share them equally but for those
// whose windows are full, the narrowest, which come last, first.
int64_t LongestSequence(const SchedulerConfig& config) {
  const std::vector<int32_t>& windows = config.group_windows;
  int64_t blocks = config.num_blocks;
  int64_t sharing = static_cast<int64_t>(windows.size());
  for (; sharing > 0 && windows[static_cast<size_t>(sharing - 1)] > 0; --sharing) {
    const int64_t kept = WindowBlocks(windows[static_cast<size_t>(sharing - 1)], config.block_size);
    if (blocks / sharing < kept) break;
    blocks -= kept;
  }
  if (sharing == 0) return std::numeric_limits<int32_t>::max();
  return blocks / sharing * config.block_size;
}

}  // namespace

absl::Status Validate(const SchedulerConfig& config) {
  if (config.block_size < 1) return TooSmall("block_size", config.block_size, 1);
  if (config.num_blocks < 1) return TooSmall("num_blocks", config.num_blocks, 1);
  constexpr int64_t kMaxBlocks = std::numeric_limits<int32_t>::max() - 1;
  if (config.num_blocks > kMaxBlocks) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_blocks is ", config.num_blocks, "; it must be at most ", kMaxBlocks));
  }
  if (config.vocab_size < 1) return TooSmall("vocab_size", config.vocab_size, 1);
  if (config.max_model_len < 2) return TooSmall("max_model_len", config.max_model_len, 2);
  OCTAVO_RETURN_IF_ERROR(ValidateGroups(config));
  const int64_t longest = LongestSequence(config);
  if (config.max_model_len > longest) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_model_len is ", config.max_model_len, " tokens; the ", config.num_blocks,
                     " KV blocks of ", config.block_size, " tokens hold at most ", longest));
  }
  if (config.max_num_seqs < 1) return TooSmall("max_num_seqs", config.max_num_seqs, 1);
  if (config.max_num_batched_tokens < 1) {
    return TooSmall("max_num_batched_tokens", config.max_num_batched_tokens, 1);
  }
  if (config.max_prefill_chunk < 0) {
    return TooSmall("max_prefill_chunk", config.max_prefill_chunk, 0);
  }
  if (config.max_queued_requests < 1) {
    return TooSmall("max_queued_requests", config.max_queued_requests, 1);
  }
  if (config.max_queued_tokens < 0) {
    return TooSmall("max_queued_tokens", config.max_queued_tokens, 0);
  }
  if (!std::isfinite(config.kv_watermark) || config.kv_watermark < 0 || config.kv_watermark >= 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("kv_watermark is ", config.kv_watermark, "; it must be in [0, 1)"));
  }
  if (config.max_preemptions < 0) return TooSmall("max_preemptions", config.max_preemptions, 0);
  if (config.kv_allocation != KvAllocation::kPaged &&
      config.group_windows != std::vector<int32_t>{0}) {
    return absl::InvalidArgumentError(
        absl::StrCat("group_windows is ", absl::StrJoin(config.group_windows, ","),
                     " and kv_allocation is ", Name(config.kv_allocation),
                     "; windowed layers give blocks back one by one, so they need paged ones"));
  }
  if (config.kv_allocation != KvAllocation::kPaged && config.prefix_cache) {
    return absl::InvalidArgumentError(absl::StrCat("prefix_cache is on and kv_allocation is ",
                                                   Name(config.kv_allocation),
                                                   "; only paged blocks can be shared"));
  }
  if (!(config.preemption_resume_share >= 0 && config.preemption_resume_share <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "preemption_resume_share is ", config.preemption_resume_share, "; it must be in [0, 1]"));
  }
  if (config.num_swap_blocks < 0) return TooSmall("num_swap_blocks", config.num_swap_blocks, 0);
  if (config.num_swap_blocks > kMaxBlocks) {
    return absl::InvalidArgumentError(absl::StrCat("num_swap_blocks is ", config.num_swap_blocks,
                                                   "; it must be at most ", kMaxBlocks));
  }
  if (config.block_bytes < 0) return TooSmall("block_bytes", config.block_bytes, 0);
  const auto is_rate = [](double rate) { return std::isfinite(rate) && rate > 0; };
  if (!is_rate(config.initial_prefill_tokens_per_second) ||
      !is_rate(config.initial_swap_bytes_per_second)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "initial rates are ", config.initial_prefill_tokens_per_second, " tokens/s and ",
        config.initial_swap_bytes_per_second, " bytes/s; they must be positive"));
  }
  if (config.prefix_digest_bits < 1 || config.prefix_digest_bits > 128) {
    return absl::InvalidArgumentError(absl::StrCat(
        "prefix_digest_bits is ", config.prefix_digest_bits, "; it must be in [1, 128]"));
  }
  return absl::OkStatus();
}

}  // namespace octavo
