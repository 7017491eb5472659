#include "tools/simulate/trace_reader.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"
#include "tools/simulate/random_stream.h"

namespace octavo::simulate {
namespace {

constexpr int64_t kMostRequests = 20'000'000;
constexpr int64_t kMostTokens = 1 << 30;  // of one prompt or answer

absl::Status LineError(absl::string_view name, int64_t line, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(name, " line ", line, ": ", what));
}

absl::StatusOr<int32_t> Length(absl::string_view field, double value) {
  if (!(value >= 0 && value <= kMostTokens) || value != std::floor(value)) {
    return absl::InvalidArgumentError(absl::StrCat(
        field, " is ", value, "; it must be a whole number in [0, ", kMostTokens, "]"));
  }
  return static_cast<int32_t>(value);
}

absl::StatusOr<double> Seconds(absl::string_view text) {
  double seconds = 0;
  if (absl::SimpleAtod(text, &seconds) && std::isfinite(seconds)) return seconds;
  absl::Time time;
  std::string error;
  if (absl::ParseTime("%Y-%m-%d %H:%M:%E*S", text, &time, &error) ||
      absl::ParseTime(absl::RFC3339_full, text, &time, &error)) {
    return absl::ToDoubleSeconds(time - absl::UnixEpoch());
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the time is \"", text, "\"; write seconds or YYYY-MM-DD HH:MM:SS with a fraction"));
}

// Sorts by arrival and lets the first one arrive at 0.
absl::StatusOr<Trace> Finish(Trace trace) {
  if (trace.requests.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(trace.name, " has no requests"));
  }
  std::stable_sort(trace.requests.begin(), trace.requests.end(),
                   [](const TraceRequest& a, const TraceRequest& b) {
                     return a.arrival_seconds < b.arrival_seconds;
                   });
  const double first = trace.requests.front().arrival_seconds;
  for (TraceRequest& request : trace.requests) request.arrival_seconds -= first;
  return trace;
}

struct Columns {
  size_t timestamp = std::numeric_limits<size_t>::max();
  size_t prompt = std::numeric_limits<size_t>::max();
  size_t output = std::numeric_limits<size_t>::max();
  size_t most() const { return std::max({timestamp, prompt, output}); }
};

absl::StatusOr<Columns> ReadHeader(absl::string_view name, absl::string_view line) {
  Columns columns;
  const std::vector<absl::string_view> names = absl::StrSplit(line, ',');
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string column = absl::AsciiStrToLower(absl::StripAsciiWhitespace(names[i]));
    if (column == "timestamp") columns.timestamp = i;
    if (column == "contexttokens") columns.prompt = i;
    if (column == "generatedtokens") columns.output = i;
  }
  if (columns.most() == std::numeric_limits<size_t>::max()) {
    return LineError(
        name, 1,
        absl::StrCat("the columns are \"", line,
                     "\"; TIMESTAMP, ContextTokens and GeneratedTokens must be there"));
  }
  return columns;
}

absl::StatusOr<TraceRequest> ReadRow(absl::string_view line, const Columns& columns) {
  const std::vector<absl::string_view> cells = absl::StrSplit(line, ',');
  if (cells.size() <= columns.most()) {
    return absl::InvalidArgumentError(
        absl::StrCat("there are ", cells.size(), " columns; ", columns.most() + 1, " are needed"));
  }
  TraceRequest request;
  OCTAVO_ASSIGN_OR_RETURN(request.arrival_seconds,
                          Seconds(absl::StripAsciiWhitespace(cells[columns.timestamp])));
  const auto length = [&](absl::string_view field, size_t column) -> absl::StatusOr<int32_t> {
    double value = 0;
    if (!absl::SimpleAtod(absl::StripAsciiWhitespace(cells[column]), &value)) value = NAN;
    return Length(field, value);
  };
  OCTAVO_ASSIGN_OR_RETURN(request.prompt_tokens, length("ContextTokens", columns.prompt));
  OCTAVO_ASSIGN_OR_RETURN(request.output_tokens, length("GeneratedTokens", columns.output));
  return request;
}

absl::StatusOr<TraceRequest> ReadObject(const std::string& line, std::vector<uint32_t>* hash_ids) {
  const nlohmann::json object =
      nlohmann::json::parse(line, /*cb=*/nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return absl::InvalidArgumentError("it is no JSON object");
  const auto number = [&](const char* field) {
    const auto found = object.find(field);
    return found != object.end() && found->is_number() ? found->get<double>() : NAN;
  };
  TraceRequest request;
  request.arrival_seconds = number("timestamp") / 1e3;
  if (!std::isfinite(request.arrival_seconds)) {
    return absl::InvalidArgumentError("timestamp must be a number of milliseconds");
  }
  OCTAVO_ASSIGN_OR_RETURN(request.prompt_tokens, Length("input_length", number("input_length")));
  OCTAVO_ASSIGN_OR_RETURN(request.output_tokens, Length("output_length", number("output_length")));
  const auto ids = object.find("hash_ids");
  if (ids == object.end()) return request;
  const int32_t needed = (request.prompt_tokens + kTokensPerHashId - 1) / kTokensPerHashId;
  if (!ids->is_array() || static_cast<int64_t>(ids->size()) < needed) {
    return absl::InvalidArgumentError(absl::StrCat("hash_ids must be a list of at least ", needed,
                                                   " ids, one for each ", kTokensPerHashId,
                                                   " prompt tokens"));
  }
  request.first_hash_id = static_cast<uint32_t>(hash_ids->size());
  request.num_hash_ids = static_cast<uint32_t>(needed);
  for (int32_t i = 0; i < needed; ++i) {
    const nlohmann::json& id = (*ids)[static_cast<size_t>(i)];
    if (!id.is_number_unsigned() || id.get<uint64_t>() > std::numeric_limits<uint32_t>::max()) {
      return absl::InvalidArgumentError(absl::StrCat("hash id ", i, " must be in [0, 2^32)"));
    }
    hash_ids->push_back(id.get<uint32_t>());
  }
  return request;
}

absl::Status CheckCount(const Trace& trace) {
  if (static_cast<int64_t>(trace.requests.size()) < kMostRequests) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(trace.name, " has more than ", kMostRequests, " requests"));
}

}  // namespace

absl::StatusOr<Trace> ReadAzureCsv(std::istream& in, absl::string_view name) {
  Trace trace{.name = std::string(name)};
  std::string line;
  std::getline(in, line);
  OCTAVO_ASSIGN_OR_RETURN(const Columns columns,
                          ReadHeader(name, absl::StripTrailingAsciiWhitespace(line)));
  for (int64_t number = 2; std::getline(in, line); ++number) {
    if (absl::StripAsciiWhitespace(line).empty()) continue;
    OCTAVO_RETURN_IF_ERROR(CheckCount(trace));
    absl::StatusOr<TraceRequest> row = ReadRow(line, columns);
    if (!row.ok()) return LineError(name, number, row.status().message());
    trace.requests.push_back(*row);
  }
  return Finish(std::move(trace));
}

absl::StatusOr<Trace> ReadMooncakeJsonl(std::istream& in, absl::string_view name) {
  Trace trace{.name = std::string(name)};
  std::string line;
  for (int64_t number = 1; std::getline(in, line); ++number) {
    if (absl::StripAsciiWhitespace(line).empty()) continue;
    OCTAVO_RETURN_IF_ERROR(CheckCount(trace));
    absl::StatusOr<TraceRequest> object = ReadObject(line, &trace.hash_ids);
    if (!object.ok()) return LineError(name, number, object.status().message());
    trace.requests.push_back(*object);
  }
  return Finish(std::move(trace));
}

absl::StatusOr<Trace> ReadTraceFile(absl::string_view path) {
  std::ifstream in{std::string(path)};
  if (!in) return absl::NotFoundError(absl::StrCat("cannot open trace ", path));
  const std::vector<absl::string_view> parts = absl::StrSplit(path, '/');
  in >> std::ws;
  return in.peek() == '{' ? ReadMooncakeJsonl(in, parts.back()) : ReadAzureCsv(in, parts.back());
}

Trace DrawSharegptLike(int64_t count, uint64_t seed) {
  // Spreads read off the paper's figure 11: most prompts are short with a long tail, answers less
  // so. The means are those before the limit.
  constexpr double kPromptMean = 161, kPromptSigma = 1.0;
  constexpr double kOutputMean = 338, kOutputSigma = 0.8;
  constexpr double kMost = 1024;
  Trace trace{.name = "sharegpt-like", .has_arrivals = false};
  RandomStream random(seed);
  const auto draw = [&](double mean, double sigma) {
    return static_cast<int32_t>(std::clamp(std::round(random.LogNormal(mean, sigma)), 1.0, kMost));
  };
  trace.requests.resize(static_cast<size_t>(count));
  for (TraceRequest& request : trace.requests) {
    request.prompt_tokens = draw(kPromptMean, kPromptSigma);
    request.output_tokens = draw(kOutputMean, kOutputSigma);
  }
  return trace;
}

}  // namespace octavo::simulate
