#include "scheduler/engine/preemption_watch.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/byte_size.h"

namespace octavo {

std::string PreemptionLine(const PreemptionEvent& event) {
  const bool swap = event.mode == PreemptionMode::kSwap;
  const bool reset = event.reason == PreemptionReason::kWorkerReset;
  std::string line =
      absl::StrCat("preempted request=", event.request, " mode=", swap ? "swap" : "recompute",
                   " blocks=", event.blocks, " tokens_lost=", event.tokens_lost,
                   " why=", reset ? "worker_reset" : "no_free_blocks");
  if (swap) absl::StrAppend(&line, " swap_bytes=", event.swap_bytes);
  if (!reset) {
    absl::StrAppendFormat(&line, " recompute_ms=%.1f", event.recompute_seconds * 1e3);
    if (std::isfinite(event.swap_seconds))
      absl::StrAppendFormat(&line, " swap_ms=%.1f", event.swap_seconds * 1e3);
  }
  return line;
}

namespace {

// What `running` requests of the mean length need, what there is, and what would close the gap.
std::string Advice(int64_t running, const CapacityReport& capacity) {
  const CacheGeometry& geometry = capacity.geometry;
  const int64_t mean_tokens = std::llround(std::ceil(capacity.mean_tokens));
  const int64_t each = std::max<int64_t>(1, geometry.BlocksHeld(mean_tokens));
  const int64_t missing = std::max<int64_t>(1, running * each - capacity.num_blocks);
  // When the mean fits and only the longer ones do not, one less than ran.
  const int64_t fitting = std::max<int64_t>(1, std::min(capacity.num_blocks / each, running - 1));
  std::string text = absl::StrCat(
      "This is capacity, not tuning: ", running, " requests ran on average; of ", mean_tokens,
      capacity.mean_is_measured ? " tokens each (measured)" : " tokens each (expected)",
      " they need ", running * each, " blocks, and the pool has ", capacity.num_blocks,
      ". Lower --max-num-seqs to ", fitting, ", or give the cache ", missing, " blocks (",
      FormatByteSize(geometry.PoolBytes(missing)), ") more, or add cards");
  const absl::StatusOr<CacheGeometry> int8 =
      CacheGeometry::Create(geometry.shape(), DType::kI8, geometry.block_size());
  if (int8.ok() && int8->bytes_per_block() < geometry.bytes_per_block())
    absl::StrAppend(&text, "; --kv-cache-dtype int8 would make the same bytes ",
                    capacity.pool_bytes() / int8->bytes_per_block(), " blocks");
  return text;
}

}  // namespace

std::optional<std::string> PreemptionWatch::Record(absl::Time now, const PreemptionEvent& event,
                                                   int64_t running,
                                                   const CapacityReport& capacity) {
  recent_.push_back({now, running + 1, event.tokens_lost, event.swap_bytes});
  if (recent_.size() > kManyPreemptions) recent_.pop_front();
  if (recent_.size() < kManyPreemptions || now - recent_.front().time > kWindow ||
      now - last_advice_ < kQuiet)
    return std::nullopt;
  last_advice_ = now;
  Entry sum;
  for (const Entry& entry : recent_) {
    sum.running += entry.running;
    sum.tokens_lost += entry.tokens_lost;
    sum.swap_bytes += entry.swap_bytes;
  }
  const int64_t mean_running = sum.running / static_cast<int64_t>(recent_.size());
  return absl::StrCat(
      "sustained preemption: the last ", recent_.size(), " within ",
      absl::FormatDuration(absl::Trunc(now - recent_.front().time, absl::Seconds(1))), " gave up ",
      sum.tokens_lost, " computed tokens and moved ", FormatByteSize(sum.swap_bytes),
      " to the host. ", Advice(mean_running, capacity));
}

}  // namespace octavo
