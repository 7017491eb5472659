#include "tools/simulate/simulation_report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/byte_size.h"
#include "common/cache_geometry.h"

namespace octavo::simulate {
namespace {

double Share(double part, double whole) { return whole > 0 ? part / whole : 0; }

nlohmann::ordered_json Milliseconds(const Distribution& seconds) {
  nlohmann::ordered_json json;
  json["mean"] = seconds.mean() * 1e3;
  json["p50"] = seconds.Percentile(0.50) * 1e3;
  json["p90"] = seconds.Percentile(0.90) * 1e3;
  json["p95"] = seconds.Percentile(0.95) * 1e3;
  json["p99"] = seconds.Percentile(0.99) * 1e3;
  json["max"] = seconds.most() * 1e3;
  return json;
}

nlohmann::ordered_json Capacity(const SimulationSetup& setup) {
  nlohmann::ordered_json json;
  json["device"] = setup.device.name;
  json["cards"] = setup.cards;
  json["model"] = setup.model.name;
  json["num_blocks"] = setup.pool.num_blocks;
  json["block_size"] = setup.geometry.block_size();
  json["kv_bytes_per_token"] = setup.geometry.bytes_per_token() * setup.cards;
  json["weight_bytes"] = setup.model.stored_bytes();
  json["max_model_len"] = setup.scheduler.max_model_len;
  json["max_num_seqs"] = setup.scheduler.max_num_seqs;
  json["max_num_batched_tokens"] = setup.scheduler.max_num_batched_tokens;
  return json;
}

std::string LatencyLine(const char* name, const Distribution& seconds) {
  return absl::StrFormat("%-18s %10.1f %10.1f %10.1f %10.1f %10.1f\n", name, seconds.mean() * 1e3,
                         seconds.Percentile(0.50) * 1e3, seconds.Percentile(0.90) * 1e3,
                         seconds.Percentile(0.99) * 1e3, seconds.most() * 1e3);
}

}  // namespace

double SimulationReport::slots_filled() const {
  return Share(levels.Mean(kFilledSlots), levels.Mean(kHeldSlots));
}

double SimulationReport::sharing_saved() const {
  const double saved = levels.Mean(kSavedBlocks);
  return Share(saved, saved + levels.Mean(kActiveBlocks));
}

double SimulationReport::prefix_hit_rate() const {
  return Share(static_cast<double>(stats.prefix_hit_tokens),
               static_cast<double>(stats.prefix_query_tokens));
}

nlohmann::ordered_json ToJson(const SimulationSetup& setup, const SimulationReport& report) {
  const SchedulerStats& stats = report.stats;
  const double pool_slots =
      static_cast<double>(setup.pool.num_blocks) * setup.geometry.block_size();
  const TimeSeries& levels = report.levels;
  const double held = levels.Mean(kHeldSlots);
  const auto of_pool = [&](Level level) { return Share(levels.Mean(level), pool_slots); };
  nlohmann::ordered_json json;
  json["trace"] = report.trace;
  json["capacity"] = Capacity(setup);
  json["requests"] = report.requests;
  json["requests_finished"] = report.requests_finished;
  json["requests_refused"] = report.requests_refused;
  if (report.requests_refused > 0) json["first_refusal"] = report.first_refusal;
  json["seconds"] = report.seconds;
  json["device_busy"] = Share(report.device_seconds, report.seconds);
  json["steps"] = stats.steps;
  json["requests_per_s"] = report.requests_per_second();
  json["tokens_per_s"] = report.tokens_per_second();
  json["total_tokens_per_s"] = report.total_tokens_per_second();
  json["prompt_tokens"] = report.prompt_tokens;
  json["output_tokens"] = report.output_tokens;
  json["computed_prompt_tokens"] = stats.prompt_tokens;
  json["ttft_ms"] = Milliseconds(report.ttft_seconds);
  json["itl_ms"] = Milliseconds(report.itl_seconds);
  json["e2e_ms"] = Milliseconds(report.e2e_seconds);
  json["queue_ms"] = Milliseconds(report.queue_seconds);
  json["concurrency"] = {{"mean", report.levels.Mean(kRunning)},
                         {"peak", report.levels.Most(kRunning)}};
  json["waiting"] = {{"mean", report.levels.Mean(kWaiting)},
                     {"peak", report.levels.Most(kWaiting)}};
  json["blocks_active"] = {{"mean", report.levels.Mean(kActiveBlocks)},
                           {"peak", report.levels.Most(kActiveBlocks)}};
  json["slots_held"] = Share(held, pool_slots);
  json["slots_filled"] = report.slots_filled();
  // Shares of the pool, as in the PagedAttention paper's figure 2; they and the blocks that only
  // steps in flight name are all of it.
  json["waste"] = {{"used", of_pool(kFilledSlots)},
                   {"reservation", of_pool(kReservedSlots)},
                   {"internal", of_pool(kInternalSlots)},
                   {"external", of_pool(kExternalSlots)},
                   {"left_over", of_pool(kLeftOverSlots)},
                   {"free", (levels.Mean(kFreeBlocks) + levels.Mean(kCachedBlocks)) /
                                static_cast<double>(setup.pool.num_blocks)}};
  json["adjacency_waits"] = stats.adjacency_waits;
  json["sharing"] = {{"saved", report.sharing_saved()},
                     {"saved_blocks_mean", report.levels.Mean(kSavedBlocks)},
                     {"saved_blocks_peak", report.levels.Most(kSavedBlocks)},
                     {"copies_on_write", stats.copies_on_write}};
  json["prefix_hit_rate"] = report.prefix_hit_rate();
  json["prefix_waits"] = stats.prefix_waits;
  json["prefix_evictions"] = stats.prefix_evictions;
  json["preemptions"] = stats.preemptions_pool;
  json["preemptions_by_mode"] = {{"recompute", stats.preemptions_pool - stats.preemptions_swap},
                                 {"swap", stats.preemptions_swap}};
  const double block_bytes = static_cast<double>(setup.geometry.bytes_per_block());
  json["swapped_bytes"] = {{"out", static_cast<double>(stats.swapped_out_blocks) * block_bytes},
                           {"in", static_cast<double>(stats.swapped_in_blocks) * block_bytes}};
  json["swap_drops"] = stats.swap_drops;
  json["preempted_tokens"] = stats.preempted_tokens;
  json["recovered_tokens"] = stats.recovered_tokens;
  if (report.interrupted) json["interrupted"] = true;
  return json;
}

std::string ToText(const SimulationSetup& setup, const SimulationReport& report) {
  const SchedulerStats& stats = report.stats;
  std::string text;
  absl::StrAppendFormat(&text, "%s on %s%s, %s blocks of %d tokens (%s of KV cache%s)\n",
                        setup.model.name, setup.device.name,
                        setup.cards > 1 ? absl::StrCat(" x ", setup.cards) : "",
                        WithCommas(setup.pool.num_blocks), setup.geometry.block_size(),
                        FormatByteSize(setup.geometry.PoolBytes(setup.pool.num_blocks)),
                        setup.cards > 1 ? " a card" : "");
  absl::StrAppendFormat(&text, "%s: %s requests, %s finished, %s refused%s\n", report.trace,
                        WithCommas(report.requests), WithCommas(report.requests_finished),
                        WithCommas(report.requests_refused),
                        report.interrupted ? " (interrupted)" : "");
  if (report.requests_refused > 0)
    absl::StrAppendFormat(&text, "first refusal: %s\n", report.first_refusal);
  absl::StrAppendFormat(
      &text, "\ntime               %.1f s simulated, the device computes %.0f %% of it, %s steps\n",
      report.seconds, 100 * Share(report.device_seconds, report.seconds),
      WithCommas(static_cast<int64_t>(stats.steps)));
  absl::StrAppendFormat(&text,
                        "throughput         %.2f requests/s, %.1f output tokens/s, %.1f tokens/s "
                        "with prompts\n",
                        report.requests_per_second(), report.tokens_per_second(),
                        report.total_tokens_per_second());
  absl::StrAppendFormat(&text, "\n%-18s %10s %10s %10s %10s %10s\n", "ms", "mean", "p50", "p90",
                        "p99", "max");
  absl::StrAppend(&text, LatencyLine("queue", report.queue_seconds),
                  LatencyLine("first token", report.ttft_seconds),
                  LatencyLine("between tokens", report.itl_seconds),
                  LatencyLine("end to end", report.e2e_seconds));
  absl::StrAppendFormat(&text,
                        "\nconcurrency        %.1f mean, %.0f peak; waiting %.1f mean, %.0f peak\n",
                        report.levels.Mean(kRunning), report.levels.Most(kRunning),
                        report.levels.Mean(kWaiting), report.levels.Most(kWaiting));
  absl::StrAppendFormat(
      &text, "blocks held        %.1f %% of the pool on average, %.1f %% at most\n",
      100 * Share(report.levels.Mean(kActiveBlocks), static_cast<double>(setup.pool.num_blocks)),
      100 * Share(report.levels.Most(kActiveBlocks), static_cast<double>(setup.pool.num_blocks)));
  const double pool_slots =
      static_cast<double>(setup.pool.num_blocks) * setup.geometry.block_size();
  const auto of_pool = [&](Level level) {
    return 100 * Share(report.levels.Mean(level), pool_slots);
  };
  absl::StrAppendFormat(&text, "slots filled       %.1f %% of those held\n",
                        100 * report.slots_filled());
  absl::StrAppendFormat(&text,
                        "slots of the pool  %.1f %% used, %.1f %% reserved, %.1f %% lost inside, "
                        "%.1f %% outside; %.1f %% left over while somebody waits\n",
                        of_pool(kFilledSlots), of_pool(kReservedSlots), of_pool(kInternalSlots),
                        of_pool(kExternalSlots), of_pool(kLeftOverSlots));
  absl::StrAppendFormat(&text, "sharing            %.1f %% of blocks saved; %s copies on write\n",
                        100 * report.sharing_saved(),
                        WithCommas(static_cast<int64_t>(stats.copies_on_write)));
  absl::StrAppendFormat(
      &text, "prefix cache       %.1f %% of prompt tokens found, %s waits for a producer\n",
      100 * report.prefix_hit_rate(), WithCommas(static_cast<int64_t>(stats.prefix_waits)));
  const uint64_t recomputed = stats.preemptions_pool - stats.preemptions_swap;
  absl::StrAppendFormat(
      &text,
      "preemptions        %s recomputed, %s swapped; %s tokens lost, %s of them found again\n",
      WithCommas(static_cast<int64_t>(recomputed)),
      WithCommas(static_cast<int64_t>(stats.preemptions_swap)),
      WithCommas(static_cast<int64_t>(stats.preempted_tokens)),
      WithCommas(static_cast<int64_t>(stats.recovered_tokens)));
  return text;
}

std::string ToCsv(const TimeSeries& levels) {
  std::string text = "seconds";
  for (size_t level = 0; level < kNumLevels; ++level) absl::StrAppend(&text, ",", LevelName(level));
  text += '\n';
  double begin = 0;
  for (const Levels& point : levels.Points()) {
    absl::StrAppendFormat(&text, "%.6f", begin);
    for (const double level : point) absl::StrAppendFormat(&text, ",%.3f", level);
    text += '\n';
    begin += levels.window_seconds();
  }
  return text;
}

}  // namespace octavo::simulate
