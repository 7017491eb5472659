#include "tools/simulate/sweep.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "common/status_macros.h"

namespace octavo::simulate {
namespace {

struct Column {
  const char* name;
  std::string (*cell)(const SweepResult&);
};

template <typename Value>
std::string Fixed(Value value, int digits) {
  return absl::StrFormat("%.*f", digits, static_cast<double>(value));
}

const std::vector<Column>& Columns() {
  static const std::vector<Column>* const columns = new std::vector<Column>{
      {"blocks", [](const SweepResult& r) { return absl::StrCat(r.setup.pool.num_blocks); }},
      {"finished", [](const SweepResult& r) { return absl::StrCat(r.report.requests_finished); }},
      {"refused", [](const SweepResult& r) { return absl::StrCat(r.report.requests_refused); }},
      {"seconds", [](const SweepResult& r) { return Fixed(r.report.seconds, 1); }},
      {"tok/s", [](const SweepResult& r) { return Fixed(r.report.tokens_per_second(), 1); }},
      {"ttft p50",
       [](const SweepResult& r) { return Fixed(r.report.ttft_seconds.Percentile(0.50) * 1e3, 1); }},
      {"ttft p99",
       [](const SweepResult& r) { return Fixed(r.report.ttft_seconds.Percentile(0.99) * 1e3, 1); }},
      {"itl p50",
       [](const SweepResult& r) { return Fixed(r.report.itl_seconds.Percentile(0.50) * 1e3, 2); }},
      {"itl p99",
       [](const SweepResult& r) { return Fixed(r.report.itl_seconds.Percentile(0.99) * 1e3, 2); }},
      {"running", [](const SweepResult& r) { return Fixed(r.report.levels.Mean(kRunning), 1); }},
      {"filled %", [](const SweepResult& r) { return Fixed(100 * r.report.slots_filled(), 1); }},
      {"hits %", [](const SweepResult& r) { return Fixed(100 * r.report.prefix_hit_rate(), 1); }},
      {"preempted",
       [](const SweepResult& r) { return absl::StrCat(r.report.stats.preemptions_pool); }},
  };
  return *columns;
}

}  // namespace

absl::StatusOr<SweptFlag> ParseSweep(absl::string_view text) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits('=', 1));
  SweptFlag flag{.name = std::string(parts.first)};
  while (absl::StartsWith(flag.name, "-")) flag.name.erase(0, 1);
  for (const absl::string_view value : absl::StrSplit(parts.second, ',', absl::SkipEmpty())) {
    flag.values.emplace_back(value);
  }
  if (flag.name.empty() || flag.values.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--sweep is \"", text, "\"; write FLAG=VALUE,VALUE,..."));
  }
  return flag;
}

absl::StatusOr<std::vector<SweepRun>> ExpandSweep(const SimulationOptions& base,
                                                  const std::vector<SweptFlag>& flags) {
  std::vector<SweepRun> runs = {{.values = {}, .options = base}};
  for (const SweptFlag& flag : flags) {
    if (runs.size() * flag.values.size() > kMostSweepRuns) {
      return absl::InvalidArgumentError(
          absl::StrCat("--sweep: with the values of ", flag.name, " there are ",
                       runs.size() * flag.values.size(), " runs; at most ", kMostSweepRuns));
    }
    std::vector<SweepRun> next;
    for (const SweepRun& run : runs) {
      for (const std::string& value : flag.values) {
        SweepRun& added = next.emplace_back(run);
        added.values.push_back(value);
        CLI::App app;
        app.set_help_flag();
        AddWorkloadFlags(app, &added.options);
        AddSystemFlags(app, &added.options);
        try {
          app.parse(std::vector<std::string>{absl::StrCat("--", flag.name, "=", value)});
        } catch (const CLI::ParseError& error) {
          return absl::InvalidArgumentError(
              absl::StrCat("--sweep ", flag.name, "=", value, ": ", error.what()));
        }
      }
    }
    runs = std::move(next);
  }
  return runs;
}

nlohmann::ordered_json ToJson(const std::vector<SweptFlag>& flags,
                              const std::vector<SweepResult>& results) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const SweepResult& result : results) {
    nlohmann::ordered_json run;
    for (size_t i = 0; i < flags.size(); ++i) run["sweep"][flags[i].name] = result.values[i];
    run.update(ToJson(result.setup, result.report));
    json.push_back(std::move(run));
  }
  return json;
}

std::string ToTable(const std::vector<SweptFlag>& flags, const std::vector<SweepResult>& results) {
  std::vector<std::vector<std::string>> rows(results.size() + 1);
  for (const SweptFlag& flag : flags) rows[0].push_back(flag.name);
  for (const Column& column : Columns()) rows[0].emplace_back(column.name);
  for (size_t i = 0; i < results.size(); ++i) {
    rows[i + 1] = results[i].values;
    for (const Column& column : Columns()) rows[i + 1].push_back(column.cell(results[i]));
  }
  std::string text = "times in ms\n";
  for (const std::vector<std::string>& row : rows) {
    for (size_t column = 0; column < row.size(); ++column) {
      size_t width = 0;
      for (const std::vector<std::string>& other : rows)
        width = std::max(width, other[column].size());
      absl::StrAppendFormat(&text, "%s%*s", column == 0 ? "" : "  ", static_cast<int>(width),
                            row[column]);
    }
    text += '\n';
  }
  return text;
}

}  // namespace octavo::simulate
