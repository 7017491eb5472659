#include "tools/perplexity.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace octavo::tools {
namespace {

using Json = nlohmann::json;

absl::Status Wrong(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("reference: ", what));
}

bool IsCount(const Json& json, const char* field) {
  return json.contains(field) && json[field].is_number_unsigned() &&
         json[field].get<uint64_t>() < (uint64_t{1} << 40);
}

}  // namespace

absl::StatusOr<PerplexityText> ParseReference(absl::string_view text) {
  const Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return Wrong("it is no JSON object");
  if (!json.contains("ids") || !json["ids"].is_array()) return Wrong("ids is no list");
  if (!json.contains("windows") || !json["windows"].is_array() || json["windows"].empty())
    return Wrong("windows is no list, or empty");
  PerplexityText parsed;
  for (const Json& id : json["ids"]) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > UINT32_MAX)
      return Wrong(absl::StrCat("ids[", parsed.ids.size(), "] is no token id"));
    parsed.ids.push_back(id.get<uint32_t>());
  }
  const auto length = static_cast<int64_t>(parsed.ids.size());
  for (const Json& window : json["windows"]) {
    const std::string name = absl::StrCat("windows[", parsed.windows.size(), "]");
    if (!window.is_object() || !IsCount(window, "start") || !IsCount(window, "tokens"))
      return Wrong(absl::StrCat(name, " lacks start or tokens"));
    PerplexityWindow& to = parsed.windows.emplace_back();
    to.start = window["start"].get<int64_t>();
    to.tokens = window["tokens"].get<int64_t>();
    if (to.tokens < 2 || to.start + to.tokens > length)
      return Wrong(absl::StrCat(name, " has ", to.tokens, " tokens from ", to.start,
                                " on; it needs at least 2 of the ", length, " ids"));
    if (!window.contains("nll")) continue;
    if (!window["nll"].is_number()) return Wrong(absl::StrCat(name, ".nll is no number"));
    to.reference_nll = window["nll"].get<double>();
  }
  return parsed;
}

PerplexityText CutText(std::vector<uint32_t> ids, int64_t length) {
  PerplexityText text;
  const auto total = static_cast<int64_t>(ids.size());
  for (int64_t start = 0; start + 2 <= total; start += length)
    text.windows.push_back({start, std::min(length, total - start), std::nullopt, 0});
  text.ids = std::move(ids);
  return text;
}

PerplexitySummary Summarise(const std::vector<PerplexityWindow>& windows) {
  PerplexitySummary summary;
  double reference = 0;
  bool all = !windows.empty();
  for (const PerplexityWindow& window : windows) {
    summary.scored += window.tokens - 1;
    summary.total_nll += window.nll;
    all = all && window.reference_nll.has_value();
    reference += window.reference_nll.value_or(0);
  }
  if (summary.scored == 0) return summary;
  const auto scored = static_cast<double>(summary.scored);
  summary.perplexity = std::exp(summary.total_nll / scored);
  if (!all) return summary;
  summary.reference_perplexity = std::exp(reference / scored);
  summary.change = std::expm1((summary.total_nll - reference) / scored);
  return summary;
}

nlohmann::json ToJson(const std::vector<PerplexityWindow>& windows) {
  const auto optional = [](std::optional<double> value) {
    return value.has_value() ? Json(*value) : Json();
  };
  Json list = Json::array();
  for (const PerplexityWindow& window : windows)
    list.push_back({{"start", window.start},
                    {"tokens", window.tokens},
                    {"scored", window.tokens - 1},
                    {"nll", window.nll},
                    {"reference_nll", optional(window.reference_nll)}});
  const PerplexitySummary summary = Summarise(windows);
  return {{"perplexity", summary.perplexity},
          {"total_nll", summary.total_nll},
          {"scored", summary.scored},
          {"reference_perplexity", optional(summary.reference_perplexity)},
          {"change", optional(summary.change)},
          {"windows", std::move(list)}};
}

}  // namespace octavo::tools
