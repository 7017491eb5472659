#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/cache_geometry.h"
#include "tools/simulate/advice.h"

namespace octavo::simulate {
namespace {

nlohmann::ordered_json Lengths(const LengthCounts& counts) {
  return {{"mean", counts.Mean()},
          {"p50", counts.Percentile(0.50)},
          {"p90", counts.Percentile(0.90)},
          {"p99", counts.Percentile(0.99)},
          {"max", counts.Percentile(1)}};
}

nlohmann::ordered_json ToJson(const FullLoad& full) {
  return {{"requests_per_s", full.requests_per_second},
          {"tokens_per_s", full.tokens_per_second},
          {"preemptions_per_request", full.preemptions_per_request},
          {"running_mean", full.running}};
}

nlohmann::ordered_json ToJson(const Alternative& tried, bool has_rate) {
  nlohmann::ordered_json json;
  json["name"] = tried.name;
  if (!tried.flags.empty()) json["flags"] = tried.flags;
  if (!tried.why_not.empty()) {
    json["why_not"] = tried.why_not;
    return json;
  }
  json["num_blocks"] = tried.num_blocks;
  json["block_size"] = tried.block_size;
  json["full_load"] = ToJson(tried.full);
  if (!has_rate) return json;
  json["busiest_minute"]["overloaded"] = tried.busiest.overloaded;
  if (!tried.busiest.overloaded) {
    json["busiest_minute"]["ttft_p99_ms"] = tried.busiest.ttft_p99_ms;
    json["busiest_minute"]["itl_p99_ms"] = tried.busiest.itl_p99_ms;
    json["busiest_minute"]["queue_p99_ms"] = tried.busiest.queue_p99_ms;
  }
  return json;
}

std::string LengthLine(const char* name, const LengthCounts& counts) {
  return absl::StrFormat("  %-18s %9.0f %9s %9s %9s %9s\n", name, counts.Mean(),
                         WithCommas(counts.Percentile(0.50)), WithCommas(counts.Percentile(0.90)),
                         WithCommas(counts.Percentile(0.99)), WithCommas(counts.Percentile(1)));
}

std::string Percent(double share) {
  const double percent = 100 * share;
  return absl::StrFormat(percent > 0 && percent < 0.995 ? "%.2f %%" : "%.1f %%", percent);
}

// "+12 %", "-3 %" or "no change".
std::string Change(double from, double to) {
  const double percent = from > 0 ? 100 * (to / from - 1) : 0;
  return std::abs(percent) < 0.5 ? "no change" : absl::StrFormat("%+.0f %%", percent);
}

std::string LengthAdvice(const Advice& advice) {
  std::string text = "How long may a request be?\n";
  int64_t said = 0;
  for (const LengthChoice& choice : advice.lengths) {
    if (choice.max_model_len == said) continue;  // it serves the next share too
    said = choice.max_model_len;
    absl::StrAppendFormat(&text, "  --max-model-len %-8d serves %s of this traffic, refuses %s\n",
                          choice.max_model_len, Percent(1 - choice.refused),
                          Percent(choice.refused));
  }
  return text;
}

std::string DemandAdvice(const Advice& advice) {
  const Alternative& now = advice.now;
  const double rate = advice.traffic.busiest_requests_per_second;
  std::string text = "How many blocks does it need?\n";
  absl::StrAppendFormat(
      &text, "  The pool has %s blocks of %d tokens = %s tokens, %s bytes each.\n",
      WithCommas(now.num_blocks), now.block_size, WithCommas(now.num_blocks * now.block_size),
      WithCommas(advice.bytes_per_token));
  if (rate <= 0) {
    return text + "  The traffic has no arrival times, so it does not say.\n";
  }
  if (now.busiest.overloaded) {
    absl::StrAppendFormat(&text,
                          "  The busiest minute brings %.2f requests per second, and this system "
                          "serves %.2f at most: the queue grows whatever the blocks.\n",
                          rate, now.full.requests_per_second);
    return text;
  }
  absl::StrAppendFormat(&text,
                        "  In the busiest minute requests hold %s blocks on average and %s at "
                        "most: %s of the pool.%s\n",
                        WithCommas(std::llround(advice.blocks_mean)),
                        WithCommas(std::llround(advice.blocks_peak)),
                        Percent(advice.blocks_peak / static_cast<double>(now.num_blocks)),
                        advice.blocks_peak > static_cast<double>(now.num_blocks)
                            ? " That is more than there is: requests wait or are preempted."
                            : "");
  absl::StrAppendFormat(&text,
                        "  Then 99 of 100 requests wait less than %.0f ms and have their first "
                        "token within %.0f ms; 99 of 100 tokens come within %.1f ms.\n",
                        now.busiest.queue_p99_ms, now.busiest.ttft_p99_ms, now.busiest.itl_p99_ms);
  return text;
}

std::string NumSeqsAdvice(const Advice& advice) {
  const FullLoad& now = advice.now.full;
  const bool sustained = now.preemptions_per_request > kSustainedPreemptions;
  std::string text = "How many sequences at once?\n";
  absl::StrAppendFormat(&text,
                        "  When requests always wait, --max-num-seqs %d preempts %.1f of 100 "
                        "requests (%.1f run on average) at %.0f output tokens/s.\n",
                        advice.max_num_seqs, 100 * now.preemptions_per_request, now.running,
                        now.tokens_per_second);
  if (advice.never_sustained) {
    absl::StrAppendFormat(&text,
                          "  Even with %d it stays at 1 of 100 or below: admission alone keeps the "
                          "pool from running dry, and there is no need to lower it.\n",
                          advice.advised_num_seqs);
    return text;
  }
  absl::StrAppendFormat(&text,
                        "  %s--max-num-seqs %d is the most that stays at 1 of 100 or below: %.0f "
                        "output tokens/s, %s.\n",
                        sustained ? "That is sustained. " : "That is fine. ",
                        advice.advised_num_seqs, advice.advised.tokens_per_second,
                        Change(now.tokens_per_second, advice.advised.tokens_per_second));
  return text;
}

std::string AlternativeAdvice(const Advice& advice) {
  const Alternative& now = advice.now;
  const bool has_rate = advice.traffic.busiest_requests_per_second > 0;
  std::string text = "What would change it?\n";
  for (const Alternative& tried : advice.alternatives) {
    absl::StrAppendFormat(&text, "  %s (%s): ", tried.name, tried.flags);
    if (!tried.why_not.empty()) {
      absl::StrAppend(&text, "does not work: ", tried.why_not, "\n");
      continue;
    }
    absl::StrAppendFormat(
        &text, "%s tokens of cache (%s); at full load %.0f output tokens/s (%s) and %.1f ",
        WithCommas(tried.num_blocks * tried.block_size),
        Change(static_cast<double>(now.num_blocks) * now.block_size,
               static_cast<double>(tried.num_blocks) * tried.block_size),
        tried.full.tokens_per_second,
        Change(now.full.tokens_per_second, tried.full.tokens_per_second),
        100 * tried.full.preemptions_per_request);
    absl::StrAppend(&text, "of 100 requests preempted");
    if (has_rate && tried.busiest.overloaded) {
      absl::StrAppend(&text, "; overloaded in the busiest minute");
    } else if (has_rate) {
      absl::StrAppendFormat(&text,
                            "; in the busiest minute the first token within %.0f ms (99 of 100)",
                            tried.busiest.ttft_p99_ms);
    }
    text += '\n';
  }
  return text;
}

}  // namespace

nlohmann::ordered_json ToJson(const Advice& advice) {
  const bool has_rate = advice.traffic.busiest_requests_per_second > 0;
  nlohmann::ordered_json json;
  json["traffic"] = {{"source", advice.traffic.source},
                     {"requests_per_second", advice.traffic.requests_per_second},
                     {"busiest_requests_per_second", advice.traffic.busiest_requests_per_second},
                     {"prompt_tokens", Lengths(advice.traffic.prompt)},
                     {"output_tokens", Lengths(advice.traffic.output)},
                     {"total_tokens", Lengths(advice.traffic.total)}};
  json["device"] = advice.device;
  json["cards"] = advice.cards;
  json["model"] = advice.model;
  json["kv_bytes_per_token"] = advice.bytes_per_token;
  for (const LengthChoice& choice : advice.lengths) {
    json["max_model_len"].push_back(
        {{"share", choice.share}, {"tokens", choice.max_model_len}, {"refused", choice.refused}});
  }
  json["now"] = ToJson(advice.now, has_rate);
  if (has_rate && !advice.now.busiest.overloaded) {
    json["blocks_needed"] = {{"mean", advice.blocks_mean}, {"peak", advice.blocks_peak}};
  }
  json["max_num_seqs"] = {{"now", advice.max_num_seqs},
                          {"advised", advice.advised_num_seqs},
                          {"never_sustained", advice.never_sustained},
                          {"full_load", ToJson(advice.advised)}};
  json["alternatives"] = nlohmann::ordered_json::array();
  for (const Alternative& tried : advice.alternatives) {
    json["alternatives"].push_back(ToJson(tried, has_rate));
  }
  return json;
}

std::string ToText(const Advice& advice) {
  const Traffic& traffic = advice.traffic;
  std::string text;
  absl::StrAppendFormat(&text, "%s on %s%s, traffic of %s\n\n", advice.model, advice.device,
                        advice.cards > 1 ? absl::StrCat(" x ", advice.cards) : "", traffic.source);
  absl::StrAppendFormat(&text, "  %-18s %9s %9s %9s %9s %9s\n", "tokens", "mean", "p50", "p90",
                        "p99", "max");
  absl::StrAppend(&text, LengthLine("prompt", traffic.prompt), LengthLine("output", traffic.output),
                  LengthLine("together", traffic.total));
  if (traffic.busiest_requests_per_second > 0) {
    absl::StrAppendFormat(&text, "  %.2f requests/s on average, %.2f in the busiest minute\n",
                          traffic.requests_per_second, traffic.busiest_requests_per_second);
  }
  absl::StrAppend(&text, "\n", LengthAdvice(advice), "\n", DemandAdvice(advice), "\n",
                  NumSeqsAdvice(advice), "\n", AlternativeAdvice(advice));
  return text;
}

}  // namespace octavo::simulate
