#include "scheduler/engine/preemption_watch.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

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

std::optional<std::string> PreemptionWatch::Record(absl::Time now, int32_t tokens_lost,
                                                   int64_t running) {
  recent_.push_back({now, tokens_lost});
  if (recent_.size() > kManyPreemptions) recent_.pop_front();
  if (recent_.size() < kManyPreemptions || now - recent_.front().time > kWindow ||
      now - last_advice_ < kQuiet)
    return std::nullopt;
  last_advice_ = now;
  int64_t tokens = 0;
  for (const Entry& entry : recent_) tokens += entry.tokens_lost;
  return absl::StrCat(
      "sustained preemption: the last ", recent_.size(), " within ",
      absl::FormatDuration(absl::Trunc(now - recent_.front().time, absl::Seconds(1))), " lost ",
      tokens, " computed tokens with ", running,
      " requests running. This is capacity, not tuning: lower --max-num-seqs, or "
      "give the cache more memory or more cards");
}

}  // namespace octavo
