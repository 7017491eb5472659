#include "tools/paging/paging_report.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "common/cache_geometry.h"

namespace octavo::paging {
namespace {

template <typename F>
Spread SpreadOver(const std::vector<Measurement>& repeats, F value) {
  std::vector<double> values;
  for (const Measurement& each : repeats) values.push_back(value(each));
  return SpreadOf(std::move(values));
}

nlohmann::json ToJson(const Spread& spread) {
  return {{"min", spread.min}, {"median", spread.median}, {"max", spread.max}};
}

double Waste(const Measurement& run) { return 1 - run.result.slots_filled(); }
double TokensPerSecond(const Measurement& run) { return run.result.tokens_per_s(); }
double Seconds(const Measurement& run) { return run.result.seconds; }
double MeanRunning(const Measurement& run) { return run.result.mean_running; }

nlohmann::json ToJson(const std::vector<Measurement>& repeats) {
  const Spread speed = SpreadOver(repeats, TokensPerSecond);
  const auto median = [&](auto value) { return SpreadOver(repeats, value).median; };
  nlohmann::json json = {
      {"tokens_per_s", speed.median},
      {"tokens_per_s_spread", ToJson(speed)},
      {"slots_filled", 1 - median(Waste)},
      {"mean_concurrency", median(MeanRunning)},
      {"preemptions",
       median([](const Measurement& run) { return static_cast<double>(run.result.preemptions); })},
      {"adjacency_waits", median([](const Measurement& run) {
         return static_cast<double>(run.result.adjacency_waits);
       })},
      {"prefix_hit_rate", median([](const Measurement& run) { return run.result.hit_rate(); })},
      {"seconds", median(Seconds)},
      {"seconds_spread", ToJson(SpreadOver(repeats, Seconds))},
  };
  if (repeats.front().predicted_seconds > 0) {
    json["predicted_seconds"] =
        median([](const Measurement& run) { return run.predicted_seconds; });
  }
  return json;
}

bool SeveralBlockSizes(const PagingReport& report) {
  return std::any_of(report.settings.begin(), report.settings.end(), [&](const Setting& setting) {
    return setting.block_size != report.settings.front().block_size;
  });
}

// Seconds of another setting over those of the first, repeat by repeat: what noise does to one
// repeat it mostly does to both.
template <typename F>
Spread RatioToFirst(const PagingReport& report, size_t setting, F seconds) {
  std::vector<double> ratios;
  for (size_t i = 0; i < report.runs[setting].size(); ++i) {
    ratios.push_back(seconds(report.runs[setting][i]) / seconds(report.runs[0][i]));
  }
  return SpreadOf(std::move(ratios));
}

std::string Row(absl::string_view name, const Spread& spread) {
  return absl::StrFormat("  %-44s %8.2f %8.2f %8.2f\n", name, spread.min, spread.median,
                         spread.max);
}

}  // namespace

Spread SpreadOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {values.front(), values[(values.size() - 1) / 2], values.back()};
}

bool PagingReport::same_tokens() const {
  return std::all_of(runs.begin(), runs.end(), [](const std::vector<Measurement>& repeats) {
    return std::all_of(repeats.begin(), repeats.end(),
                       [](const Measurement& run) { return run.same_tokens; });
  });
}

std::string KeyOf(const PagingReport& report, const Setting& setting) {
  const std::string name = absl::StrReplaceAll(Name(setting.allocation), {{"-", "_"}});
  return SeveralBlockSizes(report) ? absl::StrCat(name, "_", setting.block_size) : name;
}

std::vector<Gain> GainsOf(const PagingReport& report) {
  std::vector<Gain> gains;
  for (size_t i = 1; i < report.settings.size(); ++i) {
    Gain gain{.over = report.settings[i], .achieved = RatioToFirst(report, i, Seconds)};
    if (!report.rates.empty()) {
      const auto predicted = [](const Measurement& run) { return run.predicted_seconds; };
      gain.predicted = RatioToFirst(report, i, predicted);
      gain.achieved_of_predicted = RatioToFirst(report, i, [](const Measurement& run) {
        return run.result.seconds / run.predicted_seconds;
      });
    }
    gains.push_back(gain);
  }
  return gains;
}

nlohmann::json ToJson(const PagingReport& report) {
  nlohmann::json json = {
      {"trace", report.trace},
      {"clock", report.cpu_clock ? "cpu" : "wall"},
      {"requests", report.shape.requests},
      {"skipped_requests", report.skipped},
      {"clipped_requests", report.clipped},
      {"prompt_tokens", report.shape.prompt_tokens},
      {"output_tokens", report.shape.output_tokens},
      {"max_model_len", report.max_model_len},
      {"pool_tokens", report.pool_tokens},
      {"pool_bytes", report.pool_bytes},
      {"repeats", report.runs.front().size()},
      {"same_tokens", report.same_tokens()},
  };
  for (size_t i = 0; i < report.settings.size(); ++i) {
    nlohmann::json one = ToJson(report.runs[i]);
    one["block_size"] = report.settings[i].block_size;
    json[KeyOf(report, report.settings[i])] = std::move(one);
  }
  for (const Gain& gain : GainsOf(report)) {
    nlohmann::json one = {{"achieved", ToJson(gain.achieved)}};
    if (gain.predicted.has_value()) {
      one["predicted"] = ToJson(*gain.predicted);
      one["achieved_of_predicted"] = ToJson(*gain.achieved_of_predicted);
    }
    json["gain_over"][KeyOf(report, gain.over)] = std::move(one);
  }
  for (const Rates& rates : report.rates) {
    nlohmann::json one = {{"prefill_tokens_per_s", rates.prefill_tokens_per_s}};
    for (const auto& [sequences, rate] : rates.decode_tokens_per_s) {
      one["decode_tokens_per_s"][absl::StrCat(sequences)] = rate;
    }
    json["rates"].push_back(std::move(one));
  }
  return json;
}

std::string ToTable(const PagingReport& report) {
  const WorkloadShape& shape = report.shape;
  const double count = static_cast<double>(shape.requests);
  std::string text = absl::StrFormat(
      "%s: %d requests at once, mean %.0f prompt and %.0f output tokens; %d skipped, %d clipped\n"
      "pool: %s tokens, %s bytes; --max-model-len %d; %d repeats; seconds of %s\n\n"
      "%-24s %26s %8s %12s %11s %10s\n",
      report.trace, shape.requests, static_cast<double>(shape.prompt_tokens) / count,
      static_cast<double>(shape.output_tokens) / count, report.skipped, report.clipped,
      WithCommas(report.pool_tokens), WithCommas(report.pool_bytes), report.max_model_len,
      report.runs.front().size(), report.cpu_clock ? "CPU time" : "wall time", "",
      "tokens/s min/median/max", "filled", "concurrency", "preemptions", "hit rate");
  for (size_t i = 0; i < report.settings.size(); ++i) {
    const std::vector<Measurement>& repeats = report.runs[i];
    const Spread speed = SpreadOver(repeats, TokensPerSecond);
    const auto median = [&](auto value) { return SpreadOver(repeats, value).median; };
    absl::StrAppendFormat(
        &text, "%-24s %8.1f %8.1f %8.1f %7.1f%% %12.2f %11.0f %9.1f%%\n",
        KeyOf(report, report.settings[i]), speed.min, speed.median, speed.max,
        100 * (1 - median(Waste)), median(MeanRunning),
        median([](const Measurement& run) { return static_cast<double>(run.result.preemptions); }),
        100 * median([](const Measurement& run) { return run.result.hit_rate(); }));
  }
  const std::vector<Gain> gains = GainsOf(report);
  if (!gains.empty()) {
    absl::StrAppendFormat(&text, "\nspeed of %s over, min / median / max\n",
                          KeyOf(report, report.settings.front()));
  }
  for (const Gain& gain : gains) {
    const std::string over = KeyOf(report, gain.over);
    text += Row(over, gain.achieved);
    if (!gain.predicted.has_value()) continue;
    text += Row(absl::StrCat(over, ", predicted by rates"), *gain.predicted);
    text += Row(absl::StrCat(over, ", achieved / predicted"), *gain.achieved_of_predicted);
  }
  absl::StrAppend(
      &text, "\ntokens: ", report.same_tokens() ? "the same everywhere" : "NOT the same", "\n");
  return text;
}

}  // namespace octavo::paging
