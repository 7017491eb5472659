#include "tests/bench/cuda/report.h"

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/check.h"
#include "nlohmann/json.hpp"

namespace octavo::bench {
namespace {

using Json = nlohmann::ordered_json;

const char* Name(Bound bound) {
  switch (bound) {
    case Bound::kMemory:
      return "memory";
    case Bound::kProducts:
      return "products";
    case Bound::kToDevice:
      return "to device";
    case Bound::kToHost:
      return "to host";
  }
  return "unknown";
}

bool IsFlops(Bound bound) { return bound == Bound::kProducts; }

double Amount(const Row& row) { return IsFlops(row.bound) ? row.work.flops : row.work.bytes; }

// GB/s or TFLOP/s.
double Rate(const Row& row) {
  return row.time.median > 0 ? Amount(row) / row.time.median / (IsFlops(row.bound) ? 1e12 : 1e9)
                             : 0;
}

double Share(const Row& row) {
  return row.time.median > 0 ? row.bound_seconds / row.time.median : 0;
}

std::string TextOf(const Row& row) {
  const std::string share =
      row.bound_seconds > 0 ? absl::StrFormat("%6.3f", Share(row)) : std::string("     -");
  return absl::StrFormat("%-9s %-50s %-9s %10.1f %10.1f %10.1f %9.1f %-8s %s  %s", row.group,
                         row.name, Name(row.bound), row.time.min * 1e6, row.time.median * 1e6,
                         row.time.max * 1e6, Rate(row), IsFlops(row.bound) ? "TFLOP/s" : "GB/s",
                         share, row.note);
}

Json JsonOf(const Row& row) {
  Json json = {{"group", row.group},
               {"name", row.name},
               {"bound", Name(row.bound)},
               {"bytes", row.work.bytes},
               {"flops", row.work.flops},
               {"min_us", row.time.min * 1e6},
               {"median_us", row.time.median * 1e6},
               {"max_us", row.time.max * 1e6},
               {"samples", row.time.samples},
               {"rate", Rate(row)},
               {"unit", IsFlops(row.bound) ? "TFLOP/s" : "GB/s"}};
  if (row.bound_seconds > 0) {
    json["bound_us"] = row.bound_seconds * 1e6;
    json["share"] = Share(row);
  }
  for (const auto& [name, value] : row.more) json[name] = value;
  if (!row.note.empty()) json["note"] = row.note;
  return json;
}

void Print(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

}  // namespace

Timing TimingOf(std::vector<double> seconds) {
  OCTAVO_CHECK(!seconds.empty());
  std::sort(seconds.begin(), seconds.end());
  return {seconds.front(), seconds[seconds.size() / 2], seconds.back(),
          static_cast<int>(seconds.size())};
}

double Ceilings::Seconds(Bound bound, const Work& work) const {
  switch (bound) {
    case Bound::kMemory:
      return work.bytes / copy;
    case Bound::kProducts:
      return work.flops / products;
    case Bound::kToDevice:
      return work.bytes / to_device;
    case Bound::kToHost:
      return work.bytes / to_host;
  }
  return 0;
}

Bound Ceilings::Binding(const Work& work) const {
  return Seconds(Bound::kProducts, work) > Seconds(Bound::kMemory, work) ? Bound::kProducts
                                                                         : Bound::kMemory;
}

void Report::Note(const std::string& key, const std::string& value) {
  notes_.emplace_back(key, value);
  Print(absl::StrCat(key, ": ", value));
}

void Report::Check(const std::string& name, double error, double tolerance) {
  const bool passed = error <= tolerance;  // not so for NaN
  passed_ &= passed;
  checks_.push_back({name, error, tolerance, passed});
  Print(absl::StrFormat("check     %-44s error %.2e, tolerance %.2e  %s", name, error, tolerance,
                        passed ? "passed" : "FAILED"));
}

void Report::Add(const Row& row) {
  if (rows_.empty())
    Print(absl::StrFormat("%-9s %-50s %-9s %10s %10s %10s %18s %6s", "group", "row", "bound",
                          "min us", "median us", "max us", "rate", "share"));
  rows_.push_back(row);
  Print(std::string(absl::StripTrailingAsciiWhitespace(TextOf(row))));
}

void Report::Skip(const std::string& group, const std::string& name, const absl::Status& reason) {
  skipped_.push_back({group, name, std::string(reason.message())});
  Print(absl::StrFormat("%-9s %-50s skipped: %s", group, name, skipped_.back().reason));
}

void Report::Fail(const std::string& group, const absl::Status& reason) {
  passed_ = false;
  failed_.push_back({group, "", std::string(reason.message())});
  Print(absl::StrFormat("%-9s FAILED: %s", group, failed_.back().reason));
}

absl::Status Report::WriteJson() const {
  if (json_path_.empty()) return absl::OkStatus();
  Json json;
  for (const auto& [key, value] : notes_) json["run"][key] = value;
  json["passed"] = passed_;
  json["ceilings"] = {{"copy_gb_per_s", ceilings_.copy / 1e9},
                      {"products_tflop_per_s", ceilings_.products / 1e12},
                      {"to_device_gb_per_s", ceilings_.to_device / 1e9},
                      {"to_host_gb_per_s", ceilings_.to_host / 1e9}};
  json["checks"] = Json::array();
  for (const Checked& check : checks_)
    json["checks"].push_back({{"name", check.name},
                              {"error", check.error},
                              {"tolerance", check.tolerance},
                              {"passed", check.passed}});
  json["rows"] = Json::array();
  for (const Row& row : rows_) json["rows"].push_back(JsonOf(row));
  json["skipped"] = Json::array();
  for (const Skipped& skipped : skipped_)
    json["skipped"].push_back(
        {{"group", skipped.group}, {"name", skipped.name}, {"reason", skipped.reason}});
  json["failed"] = Json::array();
  for (const Skipped& failed : failed_)
    json["failed"].push_back({{"group", failed.group}, {"reason", failed.reason}});
  std::ofstream file(json_path_);
  file << json.dump(1) << "\n" << std::flush;
  return file ? absl::OkStatus()
              : absl::UnavailableError(absl::StrCat("cannot write --json ", json_path_));
}

}  // namespace octavo::bench
